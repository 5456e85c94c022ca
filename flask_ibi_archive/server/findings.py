"""The findings of the checks of an Archive and of a resolver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from flask_ibi_archive.errors import IBIError

#: The timeout in seconds for a whole answer.
TIMEOUT = 5
#: The maximum number of bytes of an answer that are read.
MAX_ANSWER = 4096


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check.

    :param name: the name of the check.
    :param ok: whether the check passed.
    :param text: the explanation for the user, in one line.
    """

    name: str
    ok: bool
    text: str


class CheckFailed(Exception):
    """Raised if a check fails; the message states the reason."""


def run_check(name: str, check: Callable[[], str]) -> Finding:
    """Run a check and return the finding.

    If the check raises an error, the finding contains the message of the error.

    :param check: a function that returns the text of the finding, or raises an error.
    """
    try:
        return Finding(name, True, check())
    except (CheckFailed, IBIError) as error:
        return Finding(name, False, str(error))
