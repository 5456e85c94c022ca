"""Hide registration keys and passwords in logs.

The query of an inclusion request contains the registration key of an Archive. The query of a
request of the document registry can contain the password of an actor. These values are secrets.
Many programs write the complete URL of a request to a log.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable


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
