"""Grants that paid for a work, as dc:relation states them.

Source: OpenAIRE Guidelines for Literature Repositories 3.0, "Project Identifier".
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

_PREFIX = "info:eu-repo/grantAgreement/"
#: The names of funders that metadata abbreviate.
_FUNDERS = {"EC": "European Commission"}


@dataclass(frozen=True, slots=True)
class Grant:
    """A grant.

    :param funder: the name of the funder, which may be an abbreviation.
    :param number: the number of the grant.
    :param title: the title or the acronym of the project, or None.
    """

    funder: str
    number: str
    title: str | None = None


def parse_grant(text: str) -> Grant | None:
    """Parse a value such as ``info:eu-repo/grantAgreement/EC/FP7/244909``.

    The parts after the prefix are the funder, the programme, and the number; they may be followed
    by the jurisdiction, the title and the acronym of the project. %XX replaces a "/" in a part.

    :returns: None if the value is no grant.
    """
    prefix, rest = text.strip()[: len(_PREFIX)], text.strip()[len(_PREFIX) :]
    parts = [unquote(part).strip() for part in rest.split("/")]
    if prefix.lower() != _PREFIX.lower() or len(parts) < 3 or not (parts[0] and parts[2]):
        return None
    title = next(filter(None, parts[4:6]), None)
    return Grant(_FUNDERS.get(parts[0], parts[0]), parts[2], title)
