"""Says in sentences, and as values for programs, what a proof of a claim shows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

from flask_ibi_archive.core.claims.claim import Claim
from flask_ibi_archive.core.claims.claim_proof import ProvenClaim
from flask_ibi_archive.core.claims.keys import PLAIN, TIMESTAMPED, VerifierKey
from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.core.protocol.states import State


def explain(proven: ProvenClaim) -> Iterator[str]:
    """Yield sentences that say who claimed what, since when, and how sure this is."""
    claim = proven.claim
    yield f"The Archive {proven.archive} claims that {_describe(claim)}."
    yield f"The item was last changed at {claim.timestamp}."
    if claim.aliases:
        yield f"The item is also known as {', '.join(claim.aliases)}."
    if claim.sha256 is not None:
        yield f"Its main file has the SHA-256 checksum {claim.sha256}."
    yield f"The claim has the number {proven.index + 1} in the log of {proven.size} claims."
    for one in proven.confirmations:
        time = _format_time(one.seconds)
        yield f"The log contained the claim at {time} at the latest: {one.key.name} witnesses this."
    if not proven.confirmations:
        time = _format_time(proven.seconds)
        yield f"No witness says when the log contained the claim; the Archive itself says {time}."
    yield _explain_key("Archive", "/ibi/claims/key", proven.key, PLAIN, proven.is_given)
    for one in proven.confirmations:
        yield _explain_key("witness", "/ibi/claims/witness/key", one.key, TIMESTAMPED, one.is_given)


def list_facts(proven: ProvenClaim) -> dict[str, Any]:
    """Return what a proof shows, as values for JSON."""
    claim = proven.claim
    return {
        "archive": proven.archive,
        "state": claim.state.value,
        "rep": claim.rep,
        "ibip": claim.ibip,
        "timestamp": claim.timestamp,
        "original_archive": claim.original_archive,
        "aliases": list(claim.aliases),
        "sha256": claim.sha256,
        "index": proven.index,
        "size": proven.size,
        "signed_at": _format_time(proven.seconds),
        "key": proven.key.format(),
        "key_given": proven.is_given,
        "witnesses": [
            {
                "key": one.key.format(TIMESTAMPED),
                "key_given": one.is_given,
                "signed_at": _format_time(one.seconds),
            }
            for one in proven.confirmations
        ],
    }


def _describe(claim: Claim) -> str:
    item = f"the item {' ('.join(claim.identifiers)}{')' * (len(claim.identifiers) - 1)}"
    if claim.state == State.DELETED:
        return f"it has removed {item}"
    if claim.state == State.COPY:
        return f"it holds a Copy of {item}, whose Original is in {claim.original_archive}"
    return f"it holds the Original of {item}"


def _explain_key(role: str, path: str, key: VerifierKey, kind: int, is_given: bool) -> str:
    if is_given:
        return f"The key of the {role} {key.name} is the one that you gave."
    return (
        f"The key of the {role} {key.name} is only stated in the proof. Compare it with {path} of "
        f"the {role}: {key.format(kind)}"
    )


def _format_time(seconds: int) -> str:
    return format_timestamp(datetime.fromtimestamp(seconds, timezone.utc))
