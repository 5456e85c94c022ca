"""Hide registration keys in logs.

The query of an inclusion request contains the registration key. The key is a secret. Many programs
write the complete URL of a request to a log.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable

# Each letter may be percent-encoded.
_NAME = "".join(
    f"(?:{letter}|%{ord(letter):x}|%{ord(letter) - 32:x})" for letter in "registrationkey"
)
# If a query is the value of another query, "=" and "&" are also percent-encoded.
_KEY = re.compile(rf"({_NAME}(?:=|%3D))(?:(?!%26)[^&\s'\"])*", re.IGNORECASE)


def contains_key(text: str) -> bool:
    """Return True if a text, such as a query, contains a registration key."""
    return _KEY.search(text) is not None


def hide_keys(loggers: Iterable[str]) -> None:
    """Replace registration keys by ``***`` in all future messages of loggers.

    :param loggers: the names of the loggers in this process.
    """
    for name in loggers:
        # If the logger already has this filter, this call has no effect.
        logging.getLogger(name).addFilter(_hide_keys_in_record)


def _hide_keys_in_record(record: logging.LogRecord) -> bool:
    """Hide the keys in a log record.

    :returns: always True: the logger writes the record.
    """
    try:
        text = record.getMessage()
    except (TypeError, ValueError, KeyError):  # The logger reports this error.
        return True
    hidden, count = _KEY.subn(r"\1***", text)
    if count:
        record.msg, record.args = hidden, ()
    return True
