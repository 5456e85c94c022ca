"""Checks the entries of a log: which of them are claims that the Archive may make."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from flask_ibi_archive.core.claims.claim import (
    STATE_NUMBERS,
    Claim,
    identifier_key,
    name_key,
    parse_claim,
)
from flask_ibi_archive.core.identifiers import Form, Identifier
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.resolution.former_links import is_at_host
from flask_ibi_archive.errors import ClaimError
from flask_ibi_archive.server.http.transport import make_printable

#: The maximum number of names of an item. More would fill the index with a few entries.
MAX_NAMES = 500
#: The maximum number of characters of a reason.
MAX_REASON = 300


@dataclass(slots=True)
class CheckedEntries:
    """The entries of a log that were read.

    :param claims: the claims, in the order of the log.
    :param rejected: why an entry is no claim that the Archive may make, or only in part, by its
        position.
    """

    claims: list[Claim] = field(default_factory=list)
    rejected: dict[int, str] = field(default_factory=dict)

    def list_holdings(self, archive_id: int) -> Iterator[tuple[bytes, int, int]]:
        """Yield the key of each name, the id of the Archive, and the number of the state."""
        for claim in self.claims:
            state = STATE_NUMBERS[claim.state]
            for ibi in claim.identifiers:
                yield identifier_key(ibi), archive_id, state
            for alias in claim.aliases:
                yield name_key(alias), archive_id, state

    def find_states(self) -> dict[str, tuple[State, Claim]]:
        """Return the last claim of each identifier with its state."""
        return {ibi: (claim.state, claim) for claim in self.claims for ibi in claim.identifiers}

    def find_prefixes(self) -> set[str]:
        """Return the prefixes of the identifiers of Originals."""
        return {
            Identifier(form, ibi).prefix
            for claim in self.claims
            if claim.state is State.ORIGINAL
            for form, ibi in ((Form.REP, claim.rep), (Form.IBIP, claim.ibip))
            if ibi is not None
        }


def check_entries(
    entries: Iterable[bytes], start: int, services: Collection[str], own_host: str | None = None
) -> CheckedEntries:
    """Parse entries, and check that they claim only what their Archive may claim.

    :param start: the position of the first entry.
    :param services: the IBIs of the service of the Archive.
    :param own_host: the host of the resolver. Its addresses are reported; nobody looks them up.
    Source: federation CL-1, CL-7.
    """
    checked = CheckedEntries()
    for position, entry in enumerate(entries, start):
        try:
            claim = parse_claim(entry)
            _check_claim(claim, services)
        except ClaimError as error:
            checked.rejected[position] = make_printable(str(error), MAX_REASON)
        else:
            checked.claims.append(claim)
            if own := [alias for alias in claim.aliases if is_at_host(alias, own_host)]:
                reason = f"aliases: this resolver ignores addresses at its own host: {own[0]}"
                checked.rejected[position] = make_printable(reason, MAX_REASON)
    return checked


def _check_claim(claim: Claim, services: Collection[str]) -> None:
    if claim.original_archive in services:
        raise ClaimError("ibi.archiveservice: a Copy names its own Archive")
    names: Sequence[str] = claim.names
    if len(names) > MAX_NAMES:
        raise ClaimError(f"aliases: an item has {len(names)} names, more than {MAX_NAMES}")
