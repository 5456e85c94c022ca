r"""Query strings such as ``name=value&name=value``, and the secrets that logs must not show.

If a query contains a byte that is not UTF-8, the parsed query contains a surrogate escape. For
example, ``%f3`` becomes ``"\udcf3"``. Formatting turns a surrogate escape into the same byte
again.

The query of an inclusion request contains the registration key of an Archive. The query of a
request of the document registry can contain the password of an actor. These values are secrets.
Many programs write the complete URL of a request to a log.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Container, Iterable
from functools import lru_cache
from urllib.parse import quote

from flask_ibi_archive.errors import PeerProtocolError

SERVICE_SUBJECT = "servicesubject"
#: The message about a pair that a request contains more than once.
REPEATED = "{} appears more than once; it must appear once"

# These characters are not encoded, like letters, digits and "-._~". RFC 3986 allows them in a
# query, and Table 4.1 of [R] does not contain them.
_PLAIN = "/:@!$'()*,;"
#: Matches a text that needs no encoding. It is much faster than quote().
_is_plain = re.compile(r"[A-Za-z0-9._~/:@!$'()*,;-]*").fullmatch
_ESCAPES = re.compile(rb"(?:%[0-9A-Fa-f]{2})+")
_LONE_PERCENT = re.compile("%(?![0-9A-Fa-f]{2})")
# Matches a surrogate that represents no byte.
_NO_ESCAPE = re.compile("[\ud800-\udc7f\udd00-\udfff]")


def to_bytes(value: str) -> bytes:
    """Return a text in UTF-8.

    A surrogate escape becomes the byte that it represents. Any other surrogate becomes U+FFFD.
    """
    try:
        return value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return _NO_ESCAPE.sub("\ufffd", value).encode("utf-8", "surrogateescape")


def decode_escapes(raw: bytes) -> bytes:
    """Decode each %XX; a "%" without two hexadecimal digits does not change.

    The result is the same as the result of ``urllib.parse.unquote_to_bytes``. But that function is
    slow if a text contains many malformed "%".
    """
    return _ESCAPES.sub(lambda found: bytes.fromhex(found[0].replace(b"%", b"").decode()), raw)


def decode_url(text: str) -> str:
    """Decode each %XX of a URL or path.

    The result is for comparing two URLs or two paths.

    :returns: a text that may contain surrogate escapes. "+" and a malformed "%" do not change.
    """
    if "%" not in text:
        return text
    return decode_escapes(to_bytes(text)).decode("utf-8", "surrogateescape")


def decode_query_string(raw: bytes | str) -> list[tuple[str, str]]:
    """Return the pairs of a query string in the order of the text.

    The function accepts every text.

    :param raw: the part of a URL after the "?", not decoded.
    :returns: names and values, decoded once: "+" becomes a space, and %XX becomes a byte. A
        malformed "%" does not change. A part without "=" is a name with an empty value. An empty
        part is ignored.
    Source: [R] 7.2, DECODQS, Example 7.1; 4.1, Table 4.1.
    """
    text = raw.decode("utf-8", "surrogateescape") if isinstance(raw, bytes) else raw
    pairs = []
    for part in text.split("&"):
        if part:
            name, _, value = part.partition("=")
            if "%" in part or "+" in part:
                name, value = _decode(name), _decode(value)
            pairs.append((name, value))
    return pairs


def refuse_subject(subject: str, known: Iterable[str]) -> PeerProtocolError:
    """Return the error for an unknown value of servicesubject."""
    return PeerProtocolError(
        f"servicesubject {subject[:80]!r} is unknown; it must be one of {', '.join(known)}"
    )


def _decode(text: str) -> str:
    return decode_url(text.replace("+", " "))


def format_query_string(pairs: Iterable[tuple[str, str]], urls: Container[str] = ()) -> str:
    """Return the query string of pairs in the given order.

    :param pairs: names and values.
    :param urls: the names of the pairs whose values are URLs or paths. :func:`encode_url` encodes
        these values.
    :returns: ASCII text without the "?".
    Source: [R] 4.1, Table 4.1.
    """
    parts = []
    for name, value in pairs:
        encode = encode_url if name in urls else encode_value
        parts.append(f"{_encode_name(name)}={encode(value)}")
    return "&".join(parts)


def encode_value(value: str) -> str:
    """Encode a name or a value for a query string.

    :returns: ASCII text. Spaces, ``% & + = ? #`` and all characters that RFC 3986 does not allow in
        a query become %XX. Characters such as ``/ : @ ! ( )`` do not change.
    Source: [R] 4.1, Table 4.1.
    """
    if _is_plain(value):
        return value
    return quote(to_bytes(value), safe=_PLAIN)


_encode_name = lru_cache(maxsize=256)(encode_value)  # messages have few names


def encode_url(url: str) -> str:
    """Encode a URL or path for a query string, but do not encode %XX again.

    Only a malformed "%" becomes %25. Erratum: according to Table 4.1, every "%" becomes %25. The
    examples of [R] contradict this rule.
    Source: [R] Examples 6.9, 8.1 and 8.2.
    """
    if _is_plain(url):
        return url
    return quote(to_bytes(_LONE_PERCENT.sub("%25", url)), safe=_PLAIN + "%")


def list_candidate_paths(filepath: str) -> tuple[str, ...]:
    """Return the paths that a value of parsedibiurl.filepath may mean, the most probable first.

    :param filepath: the value, decoded once. The value may contain surrogate escapes.
    :returns: the first path is the value without the leading "/". If %XX remains in this path, the
        second path is the first path, decoded again. An empty value has no paths. A path that is
        not UTF-8 is decoded as ISO 8859-1.
    Source: [R] 7.2, parsedibiurl.filepath.
    """
    raw = filepath.removeprefix("/").encode("utf-8", "surrogateescape")
    if not raw:
        return ()
    first = _decode_path(raw)
    if b"%" not in raw:
        return (first,)
    second = _decode_path(decode_escapes(raw))
    return (first,) if second == first else (first, second)


def _decode_path(raw: bytes) -> str:
    # No file has a path with NUL. PostgreSQL does not accept NUL, not even in a comparison.
    raw = raw.replace(b"\0", b"%00")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("iso-8859-1")


def _match_names(*names: str) -> str:
    """Return a regular expression that matches names; each letter may be percent-encoded."""
    return "|".join(
        [
            "".join([f"(?:{letter}|%{ord(letter):x}|%{ord(letter) - 32:x})" for letter in name])
            for name in names
        ]
    )


_REGISTRATION_KEY = "registrationkey"
_KEY = re.compile(rf"(?:{_match_names(_REGISTRATION_KEY)})(?:=|%3D)", re.IGNORECASE)
# The name "password" also matches the end of newPassword. If a query is the value of another query,
# "=" and "&" are percent-encoded. Otherwise %26 is a part of the secret.
_SECRET = re.compile(
    rf"((?:{_match_names(_REGISTRATION_KEY, 'password')})(?:=|(%3D)))"
    r"(?(2)(?:(?!%26)[^&\s])*|[^&\s]*)",
    re.IGNORECASE,
)


def contains_key(text: str) -> bool:
    """Return True if a text, such as a query, contains a registration key."""
    return _KEY.search(text) is not None


def hide_keys(loggers: Iterable[str]) -> None:
    """Replace registration keys and passwords by ``***`` in all future messages of loggers.

    :param loggers: the names of the loggers in this process.
    """
    for name in loggers:
        # If the logger already has this filter, this call has no effect.
        logging.getLogger(name).addFilter(_hide_secrets_in_record)


def _hide_secrets_in_record(record: logging.LogRecord) -> bool:
    """Hide the keys and passwords in a log record.

    :returns: always True: the logger writes the record.
    """
    try:
        text = record.getMessage()
    except (TypeError, ValueError, KeyError):  # The logger reports this error.
        return True
    hidden, count = _SECRET.subn(r"\1***", text)
    if count:
        record.msg, record.args = hidden, ()
    return True
