"""The metadata formats: the class of a format, the formats of every Archive, and their registry.

Citations in the style of ABNT are in :mod:`flask_ibi_archive.core.records.formats.abnt`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import TypeVar

from flask_ibi_archive.core.protocol.relations import is_format
from flask_ibi_archive.core.records.formats import (
    bibtex_ris,
    csl_json,
    datacite,
    json_ld,
    mtd3_br,
    oai_dc,
    openaire,
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
    :param schema: the URL of the XML schema.
    :param namespace: the XML namespace. OAI-PMH provides a format that has a schema and a
        namespace.
    :param extension: the extension of files in the format, without a dot.
    :param label: the name of the format for readers.
    :param only_theses: whether OAI-PMH provides only theses in the format.
    """

    name: str
    media_type: str
    write: Write
    schema: str | None = None
    namespace: str | None = None
    extension: str = "txt"
    label: str = ""
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
        self._added: list[MetadataFormat] = []

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
        self._added.append(format)

    def get(self, name: str) -> MetadataFormat | None:
        """Return the format that has a name; None if there is no such format."""
        return self._formats.get(name)

    def list_added_xml(self) -> list[str]:
        """Return the names of the XML formats that :meth:`add` has added.

        The formats with which the registry was created are left out.
        """
        return [format.name for format in self._added if format.is_xml]

    def __iter__(self) -> Iterator[MetadataFormat]:
        return iter(self._formats.values())

    def __len__(self) -> int:
        return len(self._formats)


def _xml(
    name: str, media_type: str, module: ModuleType, write: Write, label: str, **options: bool
) -> MetadataFormat:
    """Return an XML format, whose module states the schema and the namespace."""
    schema, namespace = module.SCHEMA, module.NAMESPACE
    return MetadataFormat(name, media_type, write, schema, namespace, "xml", label, **options)


def _text(name: str, media_type: str, write: Write, extension: str, label: str) -> MetadataFormat:
    return MetadataFormat(name, media_type, write, extension=extension, label=label)


_DATACITE = "application/vnd.datacite.datacite"
_RIS = "application/x-research-info-systems"
_CSL = "application/vnd.citationstyles.csl+json"
#: The formats that every Archive provides.
BUILT_IN = (
    _xml("oai_dc", "text/xml", oai_dc, oai_dc.write_oai_dc, "Dublin Core"),
    _xml("datacite", f"{_DATACITE}+xml", datacite, datacite.write_datacite, "DataCite"),
    _text(
        "datacite-json", f"{_DATACITE}+json", datacite.write_datacite_json, "json", "DataCite JSON"
    ),
    _xml(
        "oai_openaire",
        "application/x-openaire+xml",
        openaire,
        openaire.write_openaire,
        "OpenAIRE 4",
    ),
    _xml(
        "mtd3-br",
        "application/x-mtd3-br+xml",
        mtd3_br,
        mtd3_br.write_mtd3_br,
        "MTD3-BR",
        only_theses=True,
    ),
    _text("json-ld", "application/ld+json", json_ld.write_json_ld, "jsonld", "JSON-LD"),
    _text("bibtex", "application/x-bibtex", bibtex_ris.write_bibtex, "bib", "BibTeX"),
    _text("ris", _RIS, bibtex_ris.write_ris, "ris", "RIS"),
    _text("csl-json", _CSL, csl_json.write_csl_json, "json", "CSL-JSON"),
)
