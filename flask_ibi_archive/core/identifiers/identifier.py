"""The class of identifiers, and the recognition of the three forms: rep, ibip and legacy."""

from __future__ import annotations

from calendar import monthrange
from dataclasses import dataclass
from enum import Enum

from flask_ibi_archive.core.identifiers.abnf import IBIP, LEGACY, MAX_LENGTH, REPOSITORY


class Form(str, Enum):
    """The form of an identifier. Messages contain the values as short names.

    ``rep`` is a repository name, and ``ibip`` is an IBIp. A ``legacy`` identifier is older than the
    standard.
    Source: [G] 5, 6 and 7.
    """

    REP = "rep"
    IBIP = "ibip"
    LEGACY = "legacy"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Identifier:
    """An identifier with its canonical text.

    The class does not check the text. Therefore use ``parse_identifier`` or a ``build_`` function
    to create an identifier. If two texts differ in upper and lower case only, ``parse_identifier``
    returns equal identifiers (not for legacy identifiers).

    :param form: the form of the identifier.
    :param text: the text in lower case (rep), in upper case (ibip) or unchanged (legacy).

    Source: [G] 5, function c; 6 and 7 on case.
    """

    form: Form
    text: str

    @property
    def prefix(self) -> str:
        """The part that names the server, such as ``sid.inpe.br/mtc-m18`` or ``8JMKD3MGP8W``."""
        return self.text[: self._find_end_of_prefix()]

    @property
    def suffix(self) -> str:
        """The part that the server assigns, such as ``2009/02.16.17.46`` or ``34PGRBS``."""
        return self.text[self._find_end_of_prefix() + 1 :]

    def __str__(self) -> str:
        return self.text

    def _find_end_of_prefix(self) -> int:
        slash = self.text.index("/")
        return self.text.index("/", slash + 1) if self.form is Form.REP else slash


def match_identifier(text: str) -> Identifier | None:
    """Return the identifier of a text, or None if the text is not an identifier.

    Source: [G] Tables 6.1 and 7.1 with their semantic rules.
    """
    if len(text) > MAX_LENGTH:
        return None
    if IBIP.fullmatch(text):
        return Identifier(Form.IBIP, text.upper())
    if found := REPOSITORY.fullmatch(text):
        year, month, day = found.groups()
        if year == "0000" or (day > "28" and not month_has_day(year, month, day)):
            return None
        return Identifier(Form.REP, text.lower())
    if LEGACY.fullmatch(text):
        return Identifier(Form.LEGACY, text)
    return None


def month_has_day(year: str, month: str, day: str) -> bool:
    """Return True if a month has a certain day.

    :param year: the digits of the year.
    :param month: the digits of the month, 01 to 12.
    :param day: the digits of the day.
    """
    return 1 <= int(day) <= monthrange(int(year), int(month))[1]
