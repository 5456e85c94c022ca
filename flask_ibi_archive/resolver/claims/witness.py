"""The resolver as a witness: it cosigns the checkpoints of the logs that it follows.

A cosignature says that the tree continues every tree of this log that this resolver cosigned
before. Whoever checks a proof therefore knows that the Archive showed everyone the same log. The
latest cosigned size and root of each log are stored in the transaction that decides, before anyone
sees the signature, and the row is locked from the comparison to the commit. So two different roots
of one size are never signed, whatever is sent at the same time or is killed.

Source: federation CF-2; C2SP tlog-witness, tlog-cosignature.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

from sqlalchemy import Connection, select, update

from flask_ibi_archive.core.claims.checkpoint import Checkpoint, OpenedCheckpoint, parse_checkpoint
from flask_ibi_archive.core.claims.keys import (
    PLAIN,
    TIMESTAMPED,
    SigningKey,
    VerifierKey,
    parse_key,
)
from flask_ibi_archive.core.claims.merkle import EMPTY_ROOT, HASH_SIZE, verify_consistency
from flask_ibi_archive.core.claims.signed_note import (
    SignedNote,
    decode_base64,
    parse_note,
)
from flask_ibi_archive.errors import ClaimError, IBIError
from flask_ibi_archive.resolver.claims.tables import Cosigned, FollowedLog
from flask_ibi_archive.resolver.tables import RegisteredArchive
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.dialects import insert_or_update

#: The maximum number of hashes in a consistency proof.
MAX_PROOF = 63
#: The maximum length of a request in bytes: ten times a request with the longest proof.
MAX_BODY = 65536
#: An unchanged checkpoint is not signed again within this number of seconds. Everyone can send the
#: newest checkpoint of a log; it must not cause a write each time.
SIGN_AGAIN = 60

_parse_old = re.compile(r"old (0|[1-9][0-9]{0,17})").fullmatch


class WitnessRefusal(IBIError):
    """The witness does not cosign a checkpoint.

    :ivar status: the HTTP status of the answer.
    :ivar size: the size of the latest cosigned tree if the old size in the request is another one.
    """

    def __init__(self, status: int, message: str, size: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.size = size


class LatestTree(NamedTuple):
    """The latest tree of a log that this witness cosigned.

    :param checkpoint: the checkpoint with the signatures of the log and of this witness.
    """

    size: int
    root: bytes
    checkpoint: str


#: Stands for the tree of a log that was never cosigned.
NOTHING = LatestTree(0, EMPTY_ROOT, "")


@dataclass(frozen=True, slots=True)
class AddCheckpoint:
    """A request to cosign a checkpoint.

    :param old_size: the size of the latest tree that the witness cosigned.
    :param proof: the proof that the tree of the checkpoint continues that tree.
    """

    old_size: int
    proof: tuple[bytes, ...]
    note: SignedNote


def parse_add_checkpoint(body: bytes) -> AddCheckpoint:
    """Parse the body of a request.

    :raises ClaimError: if the body is malformed.
    Source: C2SP tlog-witness, add-checkpoint.
    """
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise ClaimError("the request is not UTF-8 text") from error
    head, _, note = text.partition("\n\n")
    first, *lines = head.split("\n")
    old = _parse_old(first)
    if old is None:
        raise ClaimError('the first line is not "old" and a size')
    if len(lines) > MAX_PROOF:
        raise ClaimError(f"the proof has {len(lines)} lines; at most {MAX_PROOF} are allowed")
    proof = tuple(map(decode_base64, lines))
    if any(len(line) != HASH_SIZE for line in proof):
        raise ClaimError("a line of the proof is not a hash of 32 bytes")
    return AddCheckpoint(int(old[1]), proof, parse_note(note))


def add_checkpoint(database: Database, key: SigningKey, body: bytes, seconds: int) -> str:
    """Cosign the checkpoint in a request, and return the line of the signature.

    :param seconds: the present time in POSIX seconds.
    :raises WitnessRefusal: if the checkpoint is not cosigned.
    :raises NotReady: if the database is not available.
    Source: C2SP tlog-witness, add-checkpoint.
    """
    try:
        request = parse_add_checkpoint(body)
        checkpoint = _parse_tree(request.note)
    except ClaimError as error:
        raise WitnessRefusal(400, str(error)) from error
    log_key, latest = _authenticate(database, request.note, checkpoint.origin)
    # Everyone can send the checkpoints of a log again. Most of these requests need no lock.
    _check(request, checkpoint, latest)
    if line := _find_recent(latest, request.note.text, key, seconds):
        return line
    with database.writing() as connection:
        # a refusal rolls back, and so also removes the row of a log that was never cosigned
        _check(request, checkpoint, _lock(connection, checkpoint.origin))
        return _store(connection, checkpoint, request.note, log_key, key, seconds)


def _check(request: AddCheckpoint, checkpoint: Checkpoint, latest: LatestTree) -> None:
    """Check that a checkpoint may be cosigned.

    :raises WitnessRefusal: if it may not.
    Source: C2SP tlog-witness, add-checkpoint.
    """
    if request.old_size > checkpoint.size:
        raise WitnessRefusal(400, "the old size is greater than the size of the checkpoint")
    size, root, _ = latest
    if request.old_size != size:
        raise WitnessRefusal(409, "the old size is not that of the latest cosigned tree", size)
    if checkpoint.size == 0 and checkpoint.root != EMPTY_ROOT:
        raise WitnessRefusal(422, "the root of an empty log is wrong")
    if not verify_consistency(size, root, checkpoint.size, checkpoint.root, request.proof):
        raise WitnessRefusal(422, "the tree does not continue the latest cosigned tree")


def cosign_verified(
    connection: Connection,
    key: SigningKey,
    log_key: VerifierKey,
    opened: OpenedCheckpoint,
    roots: Mapping[int, bytes],
    seconds: int,
) -> str | None:
    """Cosign a checkpoint whose log the follower has read and verified.

    A tree is cosigned only if it is larger than the latest cosigned one, and if the root of the
    tree at that size is known and the same. The row is locked until the transaction ends.

    :param log_key: the pinned key of the log.
    :param roots: the roots of the verified tree by size, at least at the sizes where reading began
        and ended, and at the size that :func:`find_cosigned_size` returned.
    :param seconds: the present time in POSIX seconds.
    :returns: None, or the cosigned checkpoint that contradicts this tree: the log has forked.
    """
    checkpoint = opened.checkpoint
    size, root, earlier = _lock(connection, checkpoint.origin)
    known = {0: EMPTY_ROOT, **roots, checkpoint.size: checkpoint.root}.get(size)
    if known not in (None, root):
        return earlier
    if known is not None and (checkpoint.size > size or not earlier):
        _store(connection, checkpoint, opened.note, log_key, key, seconds)
    return None


def find_cosigned_size(connection: Connection, origin: str) -> int:
    """Return the size of the latest tree of a log that was cosigned; 0 if there is none."""
    size: int | None = connection.scalar(select(Cosigned.size).where(Cosigned.origin == origin))
    return size or 0


def find_cosigned(connection: Connection, origin_hash: str) -> str | None:
    """Return the latest cosigned checkpoint of a log, with the signatures of log and witness.

    :param origin_hash: SHA-256 of the origin in hexadecimal digits, in lower case.
    :returns: None if no checkpoint of the log was cosigned.
    """
    checkpoint: str | None = connection.scalar(
        select(Cosigned.checkpoint).where(Cosigned.origin_hash == origin_hash)
    )
    return checkpoint


def _parse_tree(note: SignedNote) -> Checkpoint:
    """Parse a checkpoint; the root of an empty log may be wrong, which has a status of its own.

    :raises ClaimError: if the checkpoint is malformed.
    """
    origin, size, *rest = note.text.split("\n")
    if size != "0":
        return parse_checkpoint(note.text)
    filled = parse_checkpoint("\n".join((origin, "1", *rest)))
    return Checkpoint(origin, 0, filled.root)


def _authenticate(
    database: Database, note: SignedNote, origin: str
) -> tuple[VerifierKey, LatestTree]:
    """Return the pinned key that signed a checkpoint, and the latest cosigned tree of the log.

    :raises WitnessRefusal: if no included Archive has a log of this name, or if the checkpoint is
        not signed by the pinned key, or one of its signatures is false.
    """
    rows = database.read_rows(
        select(
            FollowedLog.key,
            Cosigned.size,
            Cosigned.root,
            Cosigned.checkpoint,
        )
        .join(RegisteredArchive, RegisteredArchive.id == FollowedLog.archive_id)
        .outerjoin(Cosigned, Cosigned.origin == FollowedLog.origin)
        .where(FollowedLog.origin == origin, RegisteredArchive.included_at.is_not(None))
    )
    if not rows:
        raise WitnessRefusal(404, "this witness does not know the log")
    for text, *latest in rows:
        key = parse_key(text)
        try:
            if key.verify(note):
                key.find_time(note)  # a false timestamped signature makes the note malformed
                return key, NOTHING if latest[0] is None else LatestTree(*latest)
        except ClaimError as error:
            raise WitnessRefusal(403, str(error)) from error
    raise WitnessRefusal(403, "the checkpoint is not signed by the known key of the log")


def _lock(connection: Connection, origin: str) -> LatestTree:
    """Lock the latest cosigned tree of a log until the transaction ends, and return it."""
    empty = insert_or_update(connection, Cosigned).values(
        origin=origin,
        origin_hash=sha256(origin.encode()).hexdigest(),
        **NOTHING._asdict(),
    )
    connection.execute(empty.on_conflict_do_nothing())
    row = connection.execute(
        select(Cosigned.size, Cosigned.root, Cosigned.checkpoint)
        .where(Cosigned.origin == origin)
        .with_for_update()
    ).one()
    return LatestTree(*row)


def _find_recent(latest: LatestTree, text: str, key: SigningKey, seconds: int) -> str | None:
    """Return the line of the signature in the latest cosigned checkpoint, if it is recent.

    :param text: the text of the checkpoint that should be signed.
    :returns: None if that is another checkpoint, or if the signature is old.
    """
    if not latest.checkpoint:
        return None
    note = parse_note(latest.checkpoint)
    signed_at = key.verifier.find_time(note)
    if note.text != text or signed_at is None or not 0 <= seconds - signed_at < SIGN_AGAIN:
        return None
    return note.signatures[-1].format()


def _store(
    connection: Connection,
    checkpoint: Checkpoint,
    note: SignedNote,
    log_key: VerifierKey,
    key: SigningKey,
    seconds: int,
) -> str:
    """Store a cosigned checkpoint, and return the line of the signature.

    The signatures of others are left out, because nobody has verified them.
    """
    ids = {log_key.find_id(kind) for kind in (PLAIN, TIMESTAMPED)}
    # the first signature of each type is the one that was verified
    of_log = {
        line.key_id: line
        for line in reversed(note.signatures)
        if line.name == log_key.name and line.key_id in ids
    }
    own = key.cosign(note.text, seconds)
    connection.execute(
        update(Cosigned)
        .where(Cosigned.origin == checkpoint.origin)
        .values(
            size=checkpoint.size,
            root=checkpoint.root,
            checkpoint=SignedNote(note.text, (*of_log.values(), own)).format(),
        )
    )
    return own.format()
