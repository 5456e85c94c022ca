"""The class of identifiers and the recognition of their three forms."""

from __future__ import annotations

from calendar import monthrange
from dataclasses import dataclass
from enum import Enum

from flask_ibi_archive.identifiers.abnf import IBIP, LEGACY, MAX_LENGTH, REPOSITORY


class Form(str, Enum):
    """The forms of identifiers; the values are their short names on the wire.

    Source: [G] 5, 6 and 7; ``legacy`` identifiers are older than the standard.
    """

    REP = "rep"
    IBIP = "ibip"
    LEGACY = "legacy"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Identifier:
    """An identifier with its canonical text, so that equal identifiers are equal values.

    ``parse_identifier`` and the ``build_`` functions create it; the class checks nothing.

    :param form: its form.
    :param text: in lower case (rep), upper case (ibip) or unchanged (legacy).
    Source: [G] 5, function c; 6 and 7 on case.
    """

    form: Form
    text: str

    @property
    def prefix(self) -> str:
        """The part that names the subsystem, as in ``sid.inpe.br/mtc-m18`` or ``8JMKD3MGP8W``."""
        return self.text[: self._find_end_of_prefix()]

    @property
    def suffix(self) -> str:
        """The part that the subsystem assigns, as in ``2009/02.16.17.46`` or ``34PGRBS``."""
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
        if year == "0000" or (day > "28" and not has_day(year, month, day)):
            return None
        return Identifier(Form.REP, text.lower())
    if LEGACY.fullmatch(text):
        return Identifier(Form.LEGACY, text)
    return None


def has_day(year: str, month: str, day: str) -> bool:
    """Return whether a month, 01 to 12, of a year has a day; all three in digits."""
    return 1 <= int(day) <= monthrange(int(year), int(month))[1]
