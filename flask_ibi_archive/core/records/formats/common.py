"""Shared parts of the metadata formats: terms for types, access and versions; writing XML.

Sources: COAR Controlled Vocabularies (https://vocabularies.coar-repositories.org), info:eu-repo
(https://wiki.surfnet.nl/display/standards/info-eu-repo), DCMI Type Vocabulary, DataCite 4,
https://schema.org, CSL 1.0.2, BibTeX, RIS, ISO 639-3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from xml.sax.saxutils import escape, quoteattr

from flask_ibi_archive.core.protocol.languages import LANGUAGES
from flask_ibi_archive.core.records.description import WorkType
from flask_ibi_archive.core.records.values import VOCABULARIES, clean, read_language
from flask_ibi_archive.core.records.work import Work

SEMANTICS = "info:eu-repo/semantics/"
_COAR = "http://purl.org/coar/"


class TypeTerms(NamedTuple):
    """The terms for a type.

    :param code: the code of the COAR resource type.
    :param label: the label of the COAR resource type.
    :param stated_term: the term of info:eu-repo, without the beginning of the URI. If there is no
        such term, ``dcmi:`` and the term of the DCMI Type Vocabulary. ``-`` if there is neither.
    """

    code: str
    label: str
    stated_term: str
    datacite: str
    schema_org: str
    csl: str
    bibtex: str
    ris: str

    @property
    def uri(self) -> str:
        """The URI of the COAR resource type."""
        return f"{_COAR}resource_type/{self.code}"

    @property
    def term(self) -> str | None:
        """The URI of the term of info:eu-repo or of the DCMI Type Vocabulary, or None."""
        if self.stated_term.startswith("dcmi:"):
            return self.stated_term.replace("dcmi:", "http://purl.org/dc/dcmitype/")
        return None if self.stated_term == "-" else SEMANTICS + self.stated_term


#: If several types have a term of CSL, the first one is that of a work of which only this term is
#: known.
TYPES = {WorkType(type): TypeTerms(*row) for type, row in VOCABULARIES["terms"].items()}


class Term(NamedTuple):
    """A term of info:eu-repo and of COAR.

    :param term: the URI of the term of info:eu-repo.
    :param label: the label of the COAR term.
    :param uri: the URI of the COAR term.
    """

    term: str
    label: str
    uri: str


_ACCESS = {
    access: Term(SEMANTICS + name, f"{access} access", f"{_COAR}access_right/{code}")
    for access, (name, code) in VOCABULARIES["access terms"].items()
}
METADATA_ONLY = _ACCESS["metadata only"]


def find_access(work: Work) -> Term | None:
    """Return the term that says who may read the files; None if this is unknown.

    The access that the Archive really gives has precedence over the access right that the
    description states.
    """
    access = work.access or work.access_right
    return _ACCESS[access] if access else None


_VERSIONS = {
    word: Term(f"{SEMANTICS}{name}", label, f"{_COAR}version/{code}")
    for name, (label, code, *words) in VOCABULARIES["version terms"].items()
    for word in words
}


def find_version(work: Work) -> Term | None:
    """Return the term for the stage of publication, such as ``acceptedVersion``; or None.

    The field ``version`` of a description may contain the stage. It may also contain the version of
    software or the edition of a book; then the result is None.
    """
    return _VERSIONS.get((work.version or "").removeprefix(SEMANTICS).replace(" ", "").lower())


#: The codes of ISO 639-1 and of ISO 639-3 of the same languages.
_CODES = {**LANGUAGES, "sh": "hbs"}


def find_language_code(tag: str) -> str:
    """Return the code of ISO 639-3 of a language tag, such as ``por`` for ``pt-BR``.

    :returns: the tag itself if the language has no code in ISO 639-1.
    """
    return _CODES.get(read_language(tag).partition("-")[0].partition("_")[0].lower(), tag)


def omit_empty(members: Mapping[str, Any] | None = None, /, **more: Any) -> dict[str, Any]:
    """Return an object without the members whose value is None, "" or []."""
    stated = {**(members or {}), **more}
    return {name: value for name, value in stated.items() if value not in (None, "", [])}


DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n'
#: The namespace of the elements of Dublin Core.
DC = "http://purl.org/dc/elements/1.1/"
XSI = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'


def element(name: str, text: str, attributes: Mapping[str, str | None] | None = None) -> str:
    """Return an XML element that contains a text.

    U+FFFD replaces the characters that XML does not allow.

    :param attributes: the attributes. An attribute with the value None is omitted.
    """
    # An XML parser would read a carriage return as a line feed.
    content = escape(clean(text), {"\r": "&#13;"})
    return f"<{name}{format_attributes(attributes or {})}>{content}</{name}>"


def format_attributes(attributes: Mapping[str, str | None]) -> str:
    """Return the attributes of an element as XML, with a space before each."""
    return "".join(
        f" {name}={quoteattr(clean(value))}"
        for name, value in attributes.items()
        if value is not None
    )


def parent(
    name: str, members: Iterable[str], attributes: Mapping[str, str | None] | None = None
) -> str:
    """Return an XML element that contains other elements."""
    return f"<{name}{format_attributes(attributes or {})}>{''.join(members)}</{name}>"


def group(name: str, members: Iterable[str]) -> Iterator[str]:
    """Yield one element that contains all members, without repetition; nothing without members."""
    lines = list(dict.fromkeys(members))
    if lines:
        yield f"<{name}>"
        yield from lines
        yield f"</{name}>"


def document(root: str, lines: Iterable[str], space: tuple[str, str], **spaces: str) -> str:
    """Return an XML document.

    :param root: the name of the root element.
    :param lines: the members of the root element.
    :param space: the namespace of the document, and the URL of its XML schema.
    :param spaces: the namespaces of all prefixes except the prefix of the root element.
    """
    prefix = f"xmlns:{root.partition(':')[0]}" if ":" in root else "xmlns"
    names = {prefix: space[0], **{f"xmlns:{name}": uri for name, uri in spaces.items()}}
    head = f"<{root}{format_attributes(names)} {XSI}"
    start = head + format_attributes({"xsi:schemaLocation": " ".join(space)}) + ">"
    return "\n".join([DECLARATION + start, *lines, f"</{root}>", ""])
