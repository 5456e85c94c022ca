"""The Atom feed of the newest items (RFC 4287)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.core.records.formats.xml_text import DECLARATION, element
from flask_ibi_archive.core.records.work import Work


def write_feed(works: Sequence[Work], base: str, name: str | None, now: datetime) -> str:
    """Return the feed of some items, the newest first.

    :param base: the beginning of the URLs of the Archive.
    :param name: the name of the Archive.
    :param now: the time of the feed, if it has no items.
    """
    times = [work.deposited for work in works if work.deposited is not None]
    lines = [
        f'{DECLARATION}<feed xmlns="http://www.w3.org/2005/Atom">',
        element("id", f"{base}/ibi/feed"),
        element("title", name or base),
        element("updated", format_timestamp(max(times, default=now))),
        element("link", "", {"rel": "self", "href": f"{base}/ibi/feed"}),
        element("link", "", {"rel": "alternate", "href": f"{base}/ibi/items"}),
        *(line for work in works for line in _write_entry(work, name or base)),
        "</feed>",
    ]
    return "\n".join([*lines, ""])


def _write_entry(work: Work, archive: str) -> Iterator[str]:
    yield "<entry>"
    yield element("id", work.url)
    yield element("title", work.title)
    if work.deposited is not None:
        yield element("updated", format_timestamp(work.deposited))
    # an entry needs an author
    for author in [name.direct for name in work.creators] or [archive]:
        yield f"<author>{element('name', author)}</author>"
    yield element("link", "", {"rel": "alternate", "href": work.page_url})
    if work.abstracts:
        yield element("summary", work.abstracts[0][0])
    yield "</entry>"
