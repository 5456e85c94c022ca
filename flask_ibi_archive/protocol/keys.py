"""The form of URL keys and registration keys."""

from __future__ import annotations

import re

# number = 10*DIGIT
# key    = number ["-" number]
_NUMBER = "[0-9]{10,}"
_KEY = re.compile(rf"{_NUMBER}(?:-{_NUMBER})?")


def is_key(text: str) -> bool:
    """Tell whether a text has the form of a key: ``number ["-" number]``, ten digits or more each.

    Source: [R] Table 5.1.
    """
    return _KEY.fullmatch(text) is not None


def parse_key(text: str) -> str:
    """Return a key.

    :param text: such as ``1424636122-5331490054869684``.
    :returns: the same text.
    :raises ValueError: if it is none. The message does not show the text: a registration key is a
        secret.
    Source: [R] Table 5.1.
    """
    if not is_key(text):
        raise ValueError(
            "a key is a number of ten digits or more, or two of them joined by a hyphen; "
            f"this text of {len(text)} characters is none"
        )
    return text
