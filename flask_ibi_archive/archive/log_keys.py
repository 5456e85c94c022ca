"""Keeps registration keys out of logs: they stand in the query of a request, which many write down."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable

# each letter may come as %XX
_NAME = "".join(
    f"(?:{letter}|%{ord(letter):x}|%{ord(letter) - 32:x})" for letter in "registrationkey"
)
# and a whole message within another one its "=" and "&" too
_KEY = re.compile(rf"({_NAME}(?:=|%3D))(?:(?!%26)[^&\s'\"])*", re.IGNORECASE)


def holds_key(text: str) -> bool:
    """Tell whether a text, such as a query, holds a registration key."""
    return _KEY.search(text) is not None


def hide_keys(loggers: Iterable[str]) -> None:
    """See that some loggers write down no registration key, at whatever level; once is enough for a
    process.
    """
    for name in loggers:
        # a filter that is there already is not added again
        logging.getLogger(name).addFilter(_hide_keys_in)


def _hide_keys_in(record: logging.LogRecord) -> bool:
    """Hide the keys in a line of a log, which is written in any case."""
    try:
        text = record.getMessage()
    except (TypeError, ValueError, KeyError):  # logging tells of it by itself
        return True
    hidden, count = _KEY.subn(r"\1***", text)
    if count:
        record.msg, record.args = hidden, ()
    return True
