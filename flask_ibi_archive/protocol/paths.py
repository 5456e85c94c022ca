"""The path of a file as a request gives it ([R] 7.2, parsedibiurl.filepath)."""

from __future__ import annotations

from flask_ibi_archive.protocol.query import unescape


def path_candidates(filepath: str) -> tuple[str, ...]:
    """Return the paths that a filepath may mean, the likelier first; none for an empty one.

    :param filepath: as decoded once from the query, bytes that are no UTF-8 as surrogate escapes.
    :returns: the path without its leading "/" as it is, then decoded once more, where that differs.
        Bytes that are no UTF-8 are read as ISO 8859-1.
    """
    raw = filepath.removeprefix("/").encode("utf-8", "surrogateescape")
    if not raw:
        return ()
    first = _text(raw)
    if b"%" not in raw:
        return (first,)
    second = _text(unescape(raw))
    return (first,) if second == first else (first, second)


def _text(raw: bytes) -> str:
    # no path holds NUL, which PostgreSQL takes not even to compare
    raw = raw.replace(b"\0", b"%00")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("iso-8859-1")
