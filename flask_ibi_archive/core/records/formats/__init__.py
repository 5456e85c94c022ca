"""The metadata formats: the class of a format, the registry, and the formats of every Archive.

Citations in the style of ABNT are in :mod:`flask_ibi_archive.core.records.formats.brazilian`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from flask_ibi_archive.core.protocol.catalogue_items import is_format
from flask_ibi_archive.core.records.formats import (
    brazilian,
    datacite,
    json_ld,
    oai_dc,
    reference_managers,
)
from flask_ibi_archive.core.records.work import Work

__all__ = ["BUILT_IN", "FormatRegistry", "MetadataFormat", "Write"]

#: A function that writes a work in a format.
Write = Callable[[Work], "str | bytes"]
#: Matches a media type without parameters (RFC 6838, 4.2).
_MEDIA_TYPE = re.compile(r"[A-Za-z0-9][\w!#$&^.+-]*/[A-Za-z0-9][\w!#$&^.+-]*", re.ASCII)
#: The type of a function that writes a work. A decorator returns the function unchanged.
Writer = TypeVar("Writer", bound=Write)


@dataclass(frozen=True, slots=True)
class MetadataFormat:
    """A format of metadata.

    :param name: the name of the format in URLs and relations, such as ``oai_dc``.
    :param media_type: the media type without parameters. Texts are encoded as UTF-8.
    :param write: returns the description of a work in the format. For XML, the result is a complete
        document.
    :param extension: the extension of files in the format, without a dot.
    :param label: the name of the format for readers.
    :param namespace: the XML namespace.
    :param schema: the URL of the XML schema. OAI-PMH provides a format that has a schema and a
        namespace.
    :param only_theses: whether OAI-PMH provides only theses in the format.
    """

    name: str
    media_type: str
    write: Write
    extension: str = "txt"
    label: str = ""
    namespace: str | None = None
    schema: str | None = None
    only_theses: bool = False

    @property
    def is_xml(self) -> bool:
        """Whether the format is XML with a schema and a namespace."""
        return self.schema is not None and self.namespace is not None


class FormatRegistry:
    """The metadata formats of an Archive, in the order in which they were added.

    :param formats: the first formats of the registry.
    """

    def __init__(self, formats: Iterable[MetadataFormat] = ()) -> None:
        self._formats = {format.name: format for format in formats}

    def add(self, format: MetadataFormat) -> None:
        """Add a format. The new format replaces a format that has the same name.

        :raises ValueError: if the name can't be part of a relation, if the media type is wrong, or
            if the format has only one of schema and namespace.
        """
        if not is_format(format.name):
            raise ValueError(
                f"{format.name!r} is not the name of a format; use letters, digits, '_' and '-', "
                "as in 'oai_dc'"
            )
        if not _MEDIA_TYPE.fullmatch(format.media_type):
            raise ValueError(f"{format.media_type!r} is not a media type such as 'application/xml'")
        if (format.schema is None) != (format.namespace is None):
            raise ValueError(f"the format {format.name} needs both a schema and a namespace")
        self._formats[format.name] = format

    def get(self, name: str) -> MetadataFormat | None:
        """Return the format that has a name; None if there is no such format."""
        return self._formats.get(name)

    def list_added_xml(self) -> list[str]:
        """Return the names of the XML formats that the app has added to those of every Archive."""
        return [format.name for format in self if format.is_xml and format not in BUILT_IN]

    def __iter__(self) -> Iterator[MetadataFormat]:
        return iter(self._formats.values())


_DATACITE = "application/vnd.datacite.datacite"
_RIS = "application/x-research-info-systems"
_CSL = "application/vnd.citationstyles.csl+json"
_OPENAIRE = "application/x-openaire+xml"
_MTD3 = "application/x-mtd3-br+xml"
_ROWS: list[tuple[Any, ...]] = [
    ("oai_dc", "text/xml", oai_dc.write_oai_dc, "xml", "Dublin Core", *oai_dc.SPACE),
    ("datacite", f"{_DATACITE}+xml", datacite.write_datacite, "xml", "DataCite", *datacite.SPACE),
    ("datacite-json", f"{_DATACITE}+json", datacite.write_datacite_json, "json", "DataCite JSON"),
    ("oai_openaire", _OPENAIRE, datacite.write_openaire, "xml", "OpenAIRE 4", *datacite.OPENAIRE),
    ("mtd3-br", _MTD3, brazilian.write_mtd3_br, "xml", "MTD3-BR", *brazilian.SPACE, True),
    ("json-ld", "application/ld+json", json_ld.write_json_ld, "jsonld", "JSON-LD"),
    ("bibtex", "application/x-bibtex", reference_managers.write_bibtex, "bib", "BibTeX"),
    ("ris", _RIS, reference_managers.write_ris, "ris", "RIS"),
    ("csl-json", _CSL, reference_managers.write_csl_json, "json", "CSL-JSON"),
]
#: The formats that every Archive provides.
BUILT_IN = tuple(MetadataFormat(*row) for row in _ROWS)
