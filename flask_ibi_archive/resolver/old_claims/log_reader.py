"""Reads the log of an Archive and verifies it, without sending requests itself.

Theory
------

What is known of a log is a signed *checkpoint* (the size and the root of the tree), and the
*frontier* of the entries that were read: the hashes of the full subtrees. Each entry of the tree
that the checkpoint describes was read, or reading it is not finished.

:func:`read_log` reads once. If the entries of the known checkpoint are not all read yet, it
continues with them. Otherwise it asks for a new checkpoint:

- Its signatures must be those of the pinned key. The timestamped signature says how old it is.
- The same size with another root is a *fork*: the Archive signed two trees. So is a smaller tree
  that was signed later, because a log only grows.
- A smaller tree that was signed earlier is a replay or comes from a cache. It proves nothing
  against the Archive, and nothing for it.
- A larger tree must contain the entries that were read before. The frontier grows by the new
  entries; its root must then be that of the checkpoint. If this is so, the larger tree is
  consistent with the earlier one, and the entries are those that the Archive signed.

If the roots differ, either the entries are not the signed ones, or the trees contradict each other.
The tiles decide: they contain a proof of consistency for the true earlier tree. Only if this proof
shows another root than the one that was signed earlier, the log is forked.

A batch that ends before the end of the tree is verified by a proof of consistency from tiles, too.
So whatever is stored was verified, and a process that is killed continues at the last batch.

:func:`read_log` is a generator. It yields lists of requests, and receives a list with their results
for each. Source: federation CL-3, CL-7; C2SP tlog-tiles.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from flask_ibi_archive.core.claims.checkpoint import (
    Checkpoint,
    OpenedCheckpoint,
    open_checkpoint,
    parse_checkpoint,
)
from flask_ibi_archive.core.claims.keys import VerifierKey
from flask_ibi_archive.core.claims.merkle import Frontier, hash_leaf
from flask_ibi_archive.core.claims.tiles import WIDTH, decode_entries, list_bundles
from flask_ibi_archive.errors import ClaimError
from flask_ibi_archive.resolver.asking import TIMED_OUT
from flask_ibi_archive.resolver.old_claims.log_files import Fetch as Fetch
from flask_ibi_archive.resolver.old_claims.log_files import Requests as Requests
from flask_ibi_archive.resolver.old_claims.log_files import (
    Unread,
    check_root,
    contradicts,
    fetch_files,
    get_body,
)
from flask_ibi_archive.resolver.old_claims.tables import CURRENT, FORKED, FULL, NEW, SILENT, STALE

#: The path of the checkpoint in the folder of a log.
CHECKPOINT = "checkpoint"
#: Matches an ETag that can be stored and sent.
_is_etag = re.compile(r"[ -~]{2,255}").fullmatch
#: The number of bundles that a batch reads at most.
BATCH = 32
#: The maximum length of a checkpoint in bytes.
MAX_CHECKPOINT = 16384
#: The seconds by which the clock of an Archive may be ahead.
MAX_AHEAD = 60

NOT_MODIFIED = 304


@dataclass(frozen=True, slots=True)
class KnownLog:
    """What is known of a log.

    :param key: the pinned key.
    :param state: a state of claims/tables.py.
    :param frontier: the entries that were read. It is not changed.
    :param checkpoint: the signed checkpoint that was verified last. None if there is none.
    :param etag: the ETag of this checkpoint.
    :param signed_at: the time of its signature in POSIX seconds.
    :param length: the length of the entries that were read in bytes.
    """

    key: VerifierKey
    state: str = NEW
    reason: str | None = None
    frontier: Frontier = field(default_factory=Frontier)
    checkpoint: str | None = None
    etag: str | None = None
    signed_at: int | None = None
    length: int = 0


@dataclass(slots=True)
class Reading:
    """The result of reading a log once. The first fields are those of :class:`KnownLog`.

    :param start: the position of the first new entry.
    :param entries: the new entries.
    :param bundles: all entries of the bundles that contain new entries, by the number of the
        bundle.
    :param is_complete: False if more entries of the checkpoint must be read.
    """

    state: str
    reason: str | None
    frontier: Frontier
    checkpoint: str | None
    etag: str | None
    signed_at: int | None
    length: int
    start: int
    entries: list[bytes] = field(default_factory=list)
    bundles: dict[int, list[bytes]] = field(default_factory=dict)
    is_complete: bool = True


class _Silent(Unread):
    """The Archive does not answer at all."""

    state = SILENT


class _Full(Unread):
    """The log is longer than the resolver reads."""

    state = FULL


class _Forked(Unread):
    """Two signed checkpoints contradict each other."""

    state = FORKED


def read_log(
    known: KnownLog,
    now: float,
    max_age: float,
    max_length: float = math.inf,
    batch: int = BATCH,
) -> Requests[Reading]:
    """Read a log once, and return what is new.

    The state is CURRENT if all entries were read and the checkpoint is not too old. SILENT follows
    only after a whole tree was read.

    An Archive could add entries for ever, which the resolver must keep. Therefore no batch is read
    after the one with which the entries reach a length.

    :param now: the present time in POSIX seconds.
    :param max_age: the seconds after which a checkpoint is too old.
    :param max_length: the length in bytes after which no entries are read.
    :param batch: the maximum number of bundles.
    """
    reading = _begin(known)
    stored = None if known.checkpoint is None else _parse(known.checkpoint)
    is_partial = stored is not None and stored.size > known.frontier.size
    try:
        size = yield from _read(known, stored, reading, now, max_age, max_length, batch)
    except Unread as error:
        reading = _begin(known)
        if isinstance(error, _Silent) and known.state == FULL:
            return reading
        if not isinstance(error, _Silent):
            reading.state = error.state
        elif stored is not None and not is_partial:
            reading.state = SILENT
        reading.reason = error.reason
        return reading
    age = now - (reading.signed_at or 0)
    # after the end of a tree that was read in batches, there is probably a newer checkpoint
    reading.is_complete = reading.frontier.size == size and not is_partial
    reading.state = STALE
    if reading.frontier.size < size:
        reading.reason = f"{reading.frontier.size} of {size} entries were read"
    elif age > max_age:
        reading.reason = f"signed its checkpoint {age:.0f} s ago"
    else:
        reading.state, reading.reason = CURRENT, None
    return reading


def _begin(known: KnownLog) -> Reading:
    return Reading(
        known.state,
        known.reason,
        known.frontier.copy(),
        known.checkpoint,
        known.etag,
        known.signed_at,
        known.length,
        known.frontier.size,
    )


def _parse(checkpoint: str) -> Checkpoint:
    """Parse a checkpoint whose signatures were verified before."""
    text, _, _ = checkpoint.rpartition("\n\n")
    return parse_checkpoint(f"{text}\n")


def _read(
    known: KnownLog,
    stored: Checkpoint | None,
    reading: Reading,
    now: float,
    max_age: float,
    max_length: float,
    batch: int,
) -> Requests[int]:
    """Read a checkpoint and new entries, and return the size of the tree.

    :param stored: the tree of the known checkpoint.
    """
    tree = stored
    is_full = known.length >= max_length
    if stored is None or stored.size == known.frontier.size or is_full:
        tree = yield from _read_checkpoint(known, reading, stored, now, max_age)
    assert tree is not None
    if tree == stored and tree.size == known.frontier.size:
        return tree.size
    if is_full:
        raise _Full(
            f"has more than {max_length} bytes of claims; if it is not faulty, set"
            " the limit to a higher number"
        )
    end = min(tree.size, (known.frontier.size // WIDTH + batch) * WIDTH)
    try:
        yield from _read_entries(reading, end)
        yield from check_root(reading.frontier, tree)
    except ClaimError as error:
        if known.checkpoint is not None and reading.checkpoint is not None:
            yield from _find_fork(known.checkpoint, reading.checkpoint)
        raise Unread(f"sends entries that are not those of its checkpoint: {error}") from None
    return tree.size


def _read_checkpoint(
    known: KnownLog, reading: Reading, stored: Checkpoint | None, now: float, max_age: float
) -> Requests[Checkpoint]:
    """Ask for the checkpoint, compare it with the known one, and return the newer one."""
    etag = known.etag if known.state == CURRENT else None
    [answer] = yield [Fetch(CHECKPOINT, etag)]
    if answer.is_retryable or answer.reason == TIMED_OUT:
        raise _Silent(str(answer.reason))
    if stored is not None and etag is not None and answer.status == NOT_MODIFIED:
        return stored
    text, opened = _open(get_body(answer, CHECKPOINT), known.key)
    tree = opened.checkpoint
    if opened.seconds > now + MAX_AHEAD:
        raise Unread("sends a checkpoint with a time in the future")
    if stored is not None and known.signed_at is not None:
        is_later = opened.seconds > known.signed_at
        if tree.size == stored.size and tree.root != stored.root:
            raise _Forked(f"signed two different logs with {tree.size} entries")
        if tree.size < stored.size and is_later:
            raise _Forked(f"signed {tree.size} entries after {stored.size} entries")
        if tree.size < stored.size or (tree.size == stored.size and not is_later):
            if now - opened.seconds > max_age:
                raise Unread("sends an old checkpoint again")
            return stored  # a cache is a little behind
    reading.checkpoint, reading.signed_at = text, opened.seconds
    reading.etag = answer.etag if _is_etag(answer.etag or "") else None
    return tree


def _open(body: bytes, key: VerifierKey) -> tuple[str, OpenedCheckpoint]:
    if len(body) > MAX_CHECKPOINT:
        raise Unread(f"sends a checkpoint of more than {MAX_CHECKPOINT} bytes")
    try:
        text = body.decode()
        return text, open_checkpoint(text, key)
    except UnicodeDecodeError:
        raise Unread("sends a checkpoint that is not UTF-8 text") from None
    except ClaimError as error:
        raise Unread(f"sends a checkpoint that is not valid: {error}") from None


def _read_entries(reading: Reading, end: int) -> Requests[None]:
    """Read the bundles with the next entries.

    :raises ClaimError: if a bundle is malformed, or does not repeat the known entries.
    """
    frontier = reading.frontier
    bundles = list_bundles(frontier.size, end) if frontier.size < end else []
    contents = yield from fetch_files(bundles)
    for bundle in bundles:
        entries = decode_entries(contents[bundle], bundle.width)
        hashes = list(map(hash_leaf, entries))
        old = frontier.size - bundle.number * WIDTH
        repeated = Frontier()
        for leaf in hashes[:old]:
            repeated.add(leaf)
        # the subtrees of the entries that the bundle repeats are the last ones of the frontier
        if not frontier.to_bytes().endswith(repeated.to_bytes()):
            raise ClaimError(f"{bundle.path} does not repeat the entries that were read before")
        for leaf in hashes[old:]:
            frontier.add(leaf)
        reading.entries += entries[old:]
        reading.length += sum(map(len, entries[old:]))
        reading.bundles[bundle.number] = entries


def _find_fork(earlier: str, later: str) -> Requests[None]:
    """Raise an error if the tiles prove that two signed trees contradict each other."""
    old, new = _parse(earlier), _parse(later)
    try:
        is_contradiction = yield from contradicts(old, new)
    except (Unread, ClaimError):
        return
    if is_contradiction:
        raise _Forked(
            f"signed a log with {new.size} entries that does not continue its log with "
            f"{old.size} entries"
        )
