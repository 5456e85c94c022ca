"""Hide registration keys in logs.

The query of an inclusion request contains the registration key, which is a secret. Many programs
write the URL of a request, with its query, to a log.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable

# each letter may be percent-encoded
_NAME = "".join(
    f"(?:{letter}|%{ord(letter):x}|%{ord(letter) - 32:x})" for letter in "registrationkey"
)
# if a query is part of another query, "=" and "&" are percent-encoded too
_KEY = re.compile(rf"({_NAME}(?:=|%3D))(?:(?!%26)[^&\s'\"])*", re.IGNORECASE)


def holds_key(text: str) -> bool:
    """Return whether a text, such as a query, contains a registration key."""
    return _KEY.search(text) is not None


def hide_keys(loggers: Iterable[str]) -> None:
    """Replace registration keys by ``***`` in all messages of some loggers of this process.

    :param loggers: the names of the loggers.
    """
    for name in loggers:
        # adding the same filter again has no effect
        logging.getLogger(name).addFilter(_hide_keys_in)


def _hide_keys_in(record: logging.LogRecord) -> bool:
    """Hide the keys in a log record and return True, so that logging writes the record."""
    try:
        text = record.getMessage()
    except (TypeError, ValueError, KeyError):  # logging reports this error itself
        return True
    hidden, count = _KEY.subn(r"\1***", text)
    if count:
        record.msg, record.args = hidden, ()
    return True
