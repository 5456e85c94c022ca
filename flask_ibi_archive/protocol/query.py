"""The query string of a request: reader and writer of its ``name=value`` pairs.

Bytes that are not UTF-8 pass through as surrogate escapes (``%f3`` is ``"\\udcf3"``), so that what
an author wrote in another encoding can be written again byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from urllib.parse import quote

SERVICE_SUBJECT = "servicesubject"

# What stays as it is besides letters, digits and "-._~": what Table 4.1 leaves alone, as far as
# RFC 3986 allows it in a query.
_PLAIN = "/:@!$'()*,;"
_ESCAPES = re.compile(rb"(?:%[0-9A-Fa-f]{2})+")
_LONE_PERCENT = re.compile("%(?![0-9A-Fa-f]{2})")
_NO_ESCAPE = re.compile("[\ud800-\udc7f\udd00-\udfff]")


def to_bytes(value: str) -> bytes:
    """Return the bytes that a value was read from: UTF-8, and each surrogate escape as its byte.

    A surrogate that is no escape stands for no byte; it becomes U+FFFD.
    """
    try:
        return value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return _NO_ESCAPE.sub("\ufffd", value).encode("utf-8", "surrogateescape")


def unescape(raw: bytes) -> bytes:
    """Return bytes with each %XX decoded; a malformed "%" stays.

    As ``unquote_to_bytes``, which raises and catches an exception for each malformed "%".
    """
    return _ESCAPES.sub(lambda found: bytes.fromhex(found[0].replace(b"%", b"").decode()), raw)


def decode_url(text: str) -> str:
    """Return a URL or path with each %XX as its byte, to be compared with another one.

    :returns: text of UTF-8 with surrogate escapes; "+" stays, and so does a malformed "%".
    """
    if "%" not in text:
        return text
    return unescape(to_bytes(text)).decode("utf-8", "surrogateescape")


def decode_query_string(raw: bytes | str) -> list[tuple[str, str]]:
    """Return the pairs of a query string, in their order.

    :param raw: what stands behind the "?" of a URL, as it came.
    :returns: names and values, decoded once: "+" is a space, %XX its byte, bytes are UTF-8 with
        surrogate escapes; a malformed "%" stays. A piece without "=" has the empty value; an empty
        piece is no pair. Nothing is refused.
    Source: [R] 7.2, DECODQS, Example 7.1; 4.1, Table 4.1.
    """
    text = raw.decode("utf-8", "surrogateescape") if isinstance(raw, bytes) else raw
    pairs = []
    for piece in text.split("&"):
        if piece:
            name, _, value = piece.partition("=")
            pairs.append((name, value))
    if "%" in text or "+" in text:
        return [(_decode(name), _decode(value)) for name, value in pairs]
    return pairs


def _decode(text: str) -> str:
    return decode_url(text.replace("+", " "))


def format_query_string(pairs: Iterable[tuple[str, str]], urls: Container[str] = ()) -> str:
    """Return the query string of pairs, in their order.

    :param pairs: names and values.
    :param urls: names of the pairs whose values are URLs or paths (see :func:`encode_url`).
    :returns: ASCII, without the "?"; ``decode_query_string`` gives the pairs again, the values of
        ``urls`` decoded once.
    Source: [R] 4.1, Table 4.1.
    """
    return "&".join(
        [
            f"{encode_value(name)}={encode_url(value) if name in urls else encode_value(value)}"
            for name, value in pairs
        ]
    )


def encode_value(value: str) -> str:
    """Return a name or value as it stands in a query string.

    :returns: ASCII; space, ``% & + = ? #``, controls, what RFC 3986 allows in no query and every
        byte that is not ASCII as %XX (upper case); ``/ : @ ! ( )`` as they are.
    Source: [R] 4.1, Table 4.1.
    """
    return quote(to_bytes(value), safe=_PLAIN)


def encode_url(url: str) -> str:
    """Return a URL or path as it stands in a query string: like any value, but with its own %XX.

    Only a "%" that no two hexadecimal digits follow becomes %25. Erratum: Table 4.1 would encode
    every "%"; the examples don't.
    Source: [R] Examples 6.9, 8.1 and 8.2.
    """
    return quote(to_bytes(_LONE_PERCENT.sub("%25", url)), safe=_PLAIN + "%")


def list_candidate_paths(filepath: str) -> tuple[str, ...]:
    """Return the paths that a filepath may mean, the likelier first; none for an empty one.

    :param filepath: as decoded once from the query, bytes that are no UTF-8 as surrogate escapes.
    :returns: the path without its leading "/" as it is, then decoded once more, where that differs.
        Bytes that are no UTF-8 are read as ISO 8859-1.
    """
    raw = filepath.removeprefix("/").encode("utf-8", "surrogateescape")
    if not raw:
        return ()
    first = _decode_path(raw)
    if b"%" not in raw:
        return (first,)
    second = _decode_path(unescape(raw))
    return (first,) if second == first else (first, second)


def _decode_path(raw: bytes) -> str:
    # no path holds NUL, which PostgreSQL takes not even to compare
    raw = raw.replace(b"\0", b"%00")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("iso-8859-1")
