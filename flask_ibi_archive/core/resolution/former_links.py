"""Former links: the possible meanings of a requested URL that is not a persistent URL.

The path may be a foreign identifier, such as ``/hdl:20.500.12345/678``, or the whole URL may be a
former address of an item, such as ``http://old.example.org/handle/1/2?x=y``. The modifiers, the
path and the query of a persistent URL may follow a foreign identifier, as in
``/hdl:20.500.12345/678!:(oai_dc)``. But the identifier may contain the same characters. Therefore
there are several candidates, the longest first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from urllib.parse import urlsplit

from flask_ibi_archive.core.identifiers.foreign import (
    ForeignIdentifier,
    parse_address,
    parse_foreign_path,
)
from flask_ibi_archive.core.protocol.hosts import normalize_host
from flask_ibi_archive.core.resolution.persistent_url import PersistentUrl, parse_persistent_target
from flask_ibi_archive.errors import IdentifierError, MalformedPersistentUrl

#: The maximum number of places where the identifier in a URL may end.
MAX_ENDS = 32

#: Stands for the identifier of the item. What follows it is never part of a repository name.
_PLACEHOLDER = "/8JMKD3MGP8W/34PGRBS"
_NAMED = re.compile("/+(?:doi|hdl|ark|urn):", re.IGNORECASE)
_ADDRESS = re.compile("/+https?:/+", re.IGNORECASE)
_ENDS = re.compile("[!+:/]")
_ARK_INFO = re.compile("(/+ark:[^?]*)[?]info", re.IGNORECASE)
_SESSION = re.compile(";jsessionid=[^/;]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FormerLink:
    """One meaning of a requested URL.

    :param alias: the foreign identifier or the former address.
    :param wanted: a persistent URL with the same modifier, path and query. Its IBI is a
        placeholder, because the IBI of the item is not known yet.
    :param rest: the text after the alias: modifier, path and query.
    """

    alias: ForeignIdentifier
    wanted: PersistentUrl
    rest: str


def is_named(target: str) -> bool:
    """Return whether a target begins with the scheme of a foreign identifier, as ``/doi:``."""
    return _NAMED.match(target) is not None


def is_at_host(alias: str, host: str | None) -> bool:
    """Return whether an alias is an address at a host. A port may follow the host."""
    return host is not None and normalize_host(urlsplit(alias).netloc) == normalize_host(host)


def find_former_links(target: str, bases: Sequence[str]) -> list[FormerLink]:
    """Return all possible meanings of a requested URL, the one with the longest alias first.

    A path may follow a foreign identifier directly, as in ``/hdl:20.500.12345/678/thesis.pdf``.
    After a former address, a path of the item needs a modifier in front of it, since a longer
    address may be the address of another page.

    The path may also be a whole address, as ``/http://old.example.org/handle/1/2``: a resolver
    redirects to such a path at the Archive that claims the address.

    Old systems wrote one address with or without a slash or a session number at the end. All these
    spellings are among the results. The inflection ``?info`` of an ARK asks for the metadata.

    :param target: the path and the query, in ASCII. Only characters that a path must not contain
        are percent-encoded.
    :param bases: the beginnings of the addresses of the target, such as ``http://old.example.org``.
    """
    if written := _ADDRESS.match(target):
        target, bases = f"http://{target[written.end() :]}", [""]
    if info := _ARK_INFO.fullmatch(target):
        target = f"{info[1]}??"
    whole, mark, query = target.partition("?")
    named, found = is_named(target), list[FormerLink | None]()
    for path in dict.fromkeys((whole, _SESSION.sub("", whole).rstrip("/") or "/")):
        if mark:
            found += [_try(parse_address, f"{base}{path}?{query}", "") for base in bases]
        for end in islice(_find_ends(path), MAX_ENDS):
            rest = path[end:] + mark + query
            if named:
                found.append(_try(parse_foreign_path, path[:end].lstrip("/"), rest))
            if path[end : end + 1] != "/":
                found.extend([_try(parse_address, base + path[:end], rest) for base in bases])
    return [link for link in found if link is not None]


def _find_ends(path: str) -> Iterator[int]:
    """Yield the positions where the identifier in a path may end, the last first."""
    yield len(path)
    for found in reversed([*_ENDS.finditer(path)]):
        yield found.start()


def _try(parse: Callable[[str], ForeignIdentifier], text: str, rest: str) -> FormerLink | None:
    """Read a foreign identifier and the rest of a link; return None if one of them is malformed."""
    try:
        return FormerLink(parse(text), parse_persistent_target(_PLACEHOLDER + rest), rest)
    except (IdentifierError, MalformedPersistentUrl):
        return None
