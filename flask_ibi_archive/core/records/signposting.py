"""Typed links from an item to its parts, for programs: FAIR Signposting, level 2.

Sources: https://signposting.org/FAIR/; RFC 8288 (Link header); RFC 9264 (linksets).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import quote

from flask_ibi_archive.core.records.formats.json_ld import find_schema_type
from flask_ibi_archive.core.records.work import Work

#: The media types of a linkset: as JSON, and in the syntax of the Link header.
LINKSET_JSON, LINKSET_TEXT = "application/linkset+json", "application/linkset"
#: The maximum size of a Link header in bytes. Many servers and proxies refuse a response whose
#: headers together have more than 4 KiB.
MAX_HEADER = 3072

_SCHEMA_ORG = "https://schema.org/"
#: The characters of URLs that are not escaped: those of RFC 3986, and existing %XX sequences.
_URL_CHARACTERS = "%:/?#[]@!$&'()*+,;=~"


@dataclass(frozen=True, slots=True)
class Link:
    """A link from one resource to another.

    :param anchor: the URL of the resource that the link is about.
    :param relation: the relation type, such as ``describedby``.
    :param target: the URL of the other resource.
    :param media_type: the media type of the other resource, or None.
    """

    anchor: str
    relation: str
    target: str
    media_type: str | None = None

    def format(self, *, with_anchor: bool = False) -> str:
        """Return the link in the syntax of the Link header (RFC 8288, 3)."""
        text = f'<{_escape(self.target)}>; rel="{self.relation}"'
        if self.media_type is not None:
            text += f'; type="{self.media_type}"'
        return f'{text}; anchor="{_escape(self.anchor)}"' if with_anchor else text


@dataclass(frozen=True, slots=True)
class Description:
    """Metadata of a work at an address.

    :param url: the address.
    :param media_type: the media type, or None if unknown.
    """

    url: str
    media_type: str | None = None


def list_item_links(
    work: Work, descriptions: Iterable[Description], linkset_url: str | None = None
) -> Iterator[Link]:
    """Yield the links of a landing page. The most important links are first.

    :param linkset_url: the address of the linkset; None in the linkset itself.
    """
    page = work.page_url
    yield Link(page, "cite-as", work.url)
    if linkset_url is not None:
        for media_type in (LINKSET_JSON, LINKSET_TEXT):
            yield Link(page, "linkset", linkset_url, media_type)
    yield Link(page, "type", f"{_SCHEMA_ORG}AboutPage")
    yield Link(page, "type", _SCHEMA_ORG + find_schema_type(work.type))
    if work.licence_url is not None:
        yield Link(page, "license", work.licence_url)
    for description in descriptions:
        yield Link(page, "describedby", description.url, description.media_type)
    for author in work.authors:
        if author.orcid_url is not None:
            yield Link(page, "author", author.orcid_url)
    for file in work.files:
        yield Link(page, "item", file.url, file.media_type)


def list_part_links(url: str, relation: str, persistent_url: str, page_url: str) -> Iterator[Link]:
    """Yield the links of a file or of metadata of a work.

    :param url: the URL of the file or of the metadata.
    :param relation: the relation to the landing page: ``collection`` or ``describes``.
    """
    yield Link(url, "cite-as", persistent_url)
    yield Link(url, relation, page_url, "text/html")


def list_all_links(work: Work, descriptions: tuple[Description, ...]) -> Iterator[Link]:
    """Yield the links of the landing page, of the files and of the metadata."""
    yield from list_item_links(work, descriptions)
    for file in work.files:
        yield from list_part_links(file.url, "collection", work.url, work.page_url)
    for description in descriptions:
        yield from list_part_links(description.url, "describes", work.url, work.page_url)


def format_link_header(links: Iterable[Link], size: int = MAX_HEADER) -> str:
    """Return the value of a Link header, with as many links as fit.

    :param size: the maximum size in bytes. Links that do not fit are only in the linkset.
    """
    chosen: list[str] = []
    for link in links:
        text = link.format()
        if len(text) + 2 <= size:
            chosen.append(text)
            size -= len(text) + 2
    return ", ".join(chosen)


def format_linkset(links: Iterable[Link]) -> str:
    """Return the links as a document of the type application/linkset (RFC 9264, 4.1)."""
    return ",\n".join(link.format(with_anchor=True) for link in links) + "\n"


def format_linkset_json(links: Iterable[Link]) -> str:
    """Return the links as a document of the type application/linkset+json (RFC 9264, 4.2)."""
    contexts: dict[str, dict[str, object]] = {}
    for link in links:
        context = contexts.setdefault(link.anchor, {"anchor": _escape(link.anchor)})
        target = {"href": _escape(link.target)}
        if link.media_type is not None:
            target["type"] = link.media_type
        targets = context.setdefault(link.relation, [])
        assert isinstance(targets, list)
        targets.append(target)
    return json.dumps({"linkset": list(contexts.values())}, indent=1) + "\n"


def _escape(url: str) -> str:
    """Return a URL in ASCII, without the characters that end a URL in a Link header."""
    return quote(url, safe=_URL_CHARACTERS)
