"""The query string of a request: its ``name=value`` pairs, and the file path in one of them.

Bytes that are not UTF-8 become surrogate escapes (``%f3`` is ``"\\udcf3"``), so that text in
another encoding can be written again byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from urllib.parse import quote

SERVICE_SUBJECT = "servicesubject"

# Not encoded, in addition to letters, digits and "-._~": what is not in Table 4.1 and allowed by
# RFC 3986 in a query.
_PLAIN = "/:@!$'()*,;"
_ESCAPES = re.compile(rb"(?:%[0-9A-Fa-f]{2})+")
_LONE_PERCENT = re.compile("%(?![0-9A-Fa-f]{2})")
_NO_ESCAPE = re.compile("[\ud800-\udc7f\udd00-\udfff]")


def to_bytes(value: str) -> bytes:
    """Return the bytes of a value: UTF-8, and each surrogate escape as its byte.

    A surrogate that is not an escape becomes U+FFFD.
    """
    try:
        return value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return _NO_ESCAPE.sub("\ufffd", value).encode("utf-8", "surrogateescape")


def unescape(raw: bytes) -> bytes:
    """Return bytes with each %XX decoded; a malformed "%" does not change.

    ``unquote_to_bytes`` does the same, but is slow for many malformed "%".
    """
    return _ESCAPES.sub(lambda found: bytes.fromhex(found[0].replace(b"%", b"").decode()), raw)


def decode_url(text: str) -> str:
    """Return a URL or path with each %XX decoded, to compare it with another one.

    :returns: text with surrogate escapes; "+" and a malformed "%" do not change.
    """
    if "%" not in text:
        return text
    return unescape(to_bytes(text)).decode("utf-8", "surrogateescape")


def decode_query_string(raw: bytes | str) -> list[tuple[str, str]]:
    """Return the pairs of a query string, in their order.

    :param raw: the part of a URL after the "?", not decoded.
    :returns: names and values, decoded once: "+" is a space, %XX a byte of UTF-8 or a surrogate
        escape; a malformed "%" does not change. A part without "=" has an empty value; an empty
        part is ignored. No text is an error.
    Source: [R] 7.2, DECODQS, Example 7.1; 4.1, Table 4.1.
    """
    text = raw.decode("utf-8", "surrogateescape") if isinstance(raw, bytes) else raw
    pairs = []
    for part in text.split("&"):
        if part:
            name, _, value = part.partition("=")
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
    :returns: ASCII text without the "?". :func:`decode_query_string` returns the same pairs again,
        with the values of ``urls`` decoded once.
    Source: [R] 4.1, Table 4.1.
    """
    return "&".join(
        [
            f"{encode_value(name)}={encode_url(value) if name in urls else encode_value(value)}"
            for name, value in pairs
        ]
    )


def encode_value(value: str) -> str:
    """Return a name or value encoded for a query string.

    :returns: ASCII text. Space, ``% & + = ? #``, control characters, characters that RFC 3986 does
        not allow in a query and bytes that are not ASCII are written %XX (upper case); ``/ : @ ! (
        )`` do not change.
    Source: [R] 4.1, Table 4.1.
    """
    return quote(to_bytes(value), safe=_PLAIN)


def encode_url(url: str) -> str:
    """Return a URL or path encoded for a query string; it keeps its own %XX.

    Only a "%" without two hexadecimal digits after it becomes %25. Erratum: Table 4.1 would encode
    every "%"; the examples do not.
    Source: [R] Examples 6.9, 8.1 and 8.2.
    """
    return quote(to_bytes(_LONE_PERCENT.sub("%25", url)), safe=_PLAIN + "%")


def list_candidate_paths(filepath: str) -> tuple[str, ...]:
    """Return the paths that a parsedibiurl.filepath may mean, the most probable one first.

    :param filepath: decoded once from the query; bytes that are not UTF-8 are surrogate escapes.
    :returns: the path without its leading "/", then the same decoded once more if that differs;
        none for an empty path. Bytes that are not UTF-8 are read as ISO 8859-1.
    Source: [R] 7.2, parsedibiurl.filepath.
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
    # No path contains NUL, and PostgreSQL does not accept NUL even in a comparison.
    raw = raw.replace(b"\0", b"%00")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("iso-8859-1")
