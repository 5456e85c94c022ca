"""The metadata formats: one module for each format, and their registry.

Citations in the style of ABNT are in :mod:`flask_ibi_archive.core.records.formats.abnt`.
"""

from flask_ibi_archive.core.records.formats import bibtex, csl_json, datacite, json_ld, oai_dc, ris
from flask_ibi_archive.core.records.formats.format_registry import (
    FormatRegistry,
    MetadataFormat,
    Write,
)

__all__ = ["BUILT_IN", "FormatRegistry", "MetadataFormat", "Write"]

#: The formats that every Archive provides.
BUILT_IN = (
    MetadataFormat(
        "oai_dc",
        "text/xml",
        oai_dc.write_oai_dc,
        schema=oai_dc.SCHEMA,
        namespace=oai_dc.NAMESPACE,
        extension="xml",
        label="Dublin Core",
    ),
    MetadataFormat(
        "datacite",
        "application/vnd.datacite.datacite+xml",
        datacite.write_datacite,
        schema=datacite.SCHEMA,
        namespace=datacite.NAMESPACE,
        extension="xml",
        label="DataCite",
    ),
    MetadataFormat(
        "json-ld",
        "application/ld+json",
        json_ld.write_json_ld,
        extension="jsonld",
        label="JSON-LD",
    ),
    MetadataFormat(
        "bibtex",
        "application/x-bibtex",
        bibtex.write_bibtex,
        extension="bib",
        label="BibTeX",
    ),
    MetadataFormat(
        "ris",
        "application/x-research-info-systems",
        ris.write_ris,
        extension="ris",
        label="RIS",
    ),
    MetadataFormat(
        "csl-json",
        "application/vnd.citationstyles.csl+json",
        csl_json.write_csl_json,
        extension="json",
        label="CSL-JSON",
    ),
)
