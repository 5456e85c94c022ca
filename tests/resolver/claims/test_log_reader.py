"""Reading a log: what is accepted, and the state and the reason for each misbehaviour."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from support.cases import for_each
from support.claim_logs import (
    ClaimLog,
    a_claim,
    a_log,
    garble,
    know,
    learn,
    read_once,
    reorder,
)
from support.clocks import Clock

from flask_ibi_archive.core.claims.checkpoint import Checkpoint
from flask_ibi_archive.core.claims.claim import format_claim
from flask_ibi_archive.core.claims.keys import SigningKey
from flask_ibi_archive.core.claims.tiles import decode_entries, encode_entries
from flask_ibi_archive.resolver.asking import CUT_OFF, TIMED_OUT, TransferResult
from flask_ibi_archive.resolver.old_claims.log_reader import MAX_CHECKPOINT, KnownLog, Reading
from flask_ibi_archive.resolver.old_claims.tables import CURRENT, FORKED, NEW, SILENT, STALE

#: The time of the first reading in POSIX seconds, and the sizes of the log at the two readings.
NOON, OLD, SIZE = 1_800_000_000, 300, 560
MAX_AGE = 300
LAST_BUNDLE = "tile/entries/002.p/48"
GONE = TransferResult(reason="can't be reached", is_retryable=True)


def grow(log: ClaimLog, size: int) -> None:
    log.add(*map(a_claim, range(log.size, size)))


# --- logs that behave ----------------------------------------------------------------------------


@given(
    sizes=st.lists(st.integers(0, 700), min_size=1, max_size=4).map(sorted), batch=st.integers(1, 3)
)
def test_a_log_that_grows_is_read_in_batches_and_each_entry_once(
    sizes: list[int], batch: int
) -> None:
    log = a_log(clock=Clock(NOON))
    known = KnownLog(log.signer.verifier)
    entries: list[bytes] = []
    bundles: dict[int, list[bytes]] = {}
    for size in sizes:
        grow(log, size)
        is_complete = False
        while not is_complete:
            reading = read_once(log, known, batch=batch)
            assert reading.start == len(entries)
            entries += reading.entries
            bundles.update(reading.bundles)
            is_complete = reading.is_complete
            assert reading.state == CURRENT if is_complete else reading.state in (STALE, CURRENT)
            known = learn(known, reading)
        assert entries == log.entries
        kept = [entry for number in sorted(bundles) for entry in bundles[number]]
        assert kept == log.entries
        assert known.frontier.root() == log.root()


def test_an_unchanged_log_is_one_request_without_content() -> None:
    log = a_log(size=OLD, clock=Clock(NOON))
    known = know(log)
    log.asked.clear()
    reading = read_once(log, known)
    assert (reading.state, reading.entries, log.asked) == (CURRENT, [], ["checkpoint"])
    assert learn(known, reading).checkpoint == known.checkpoint


def test_only_bundles_with_new_entries_are_read() -> None:
    log = a_log(size=OLD, clock=Clock(NOON))
    known = know(log)
    log.asked.clear()
    grow(log, SIZE)
    reading = read_once(log, known)
    assert log.asked == ["checkpoint", "tile/entries/001", LAST_BUNDLE]
    assert reading.entries == log.entries[OLD:]


def test_a_server_may_lack_partial_files() -> None:
    log = a_log(size=OLD, clock=Clock(NOON))
    checkpoint = log.sign()
    grow(log, SIZE)
    log.replaced = {"checkpoint": checkpoint.encode(), "tile/entries/001.p/44": None}
    reading = read_once(log)
    assert (reading.state, reading.entries) == (CURRENT, log.entries[:OLD])


def test_a_batch_of_a_larger_tree_is_proved_by_tiles_even_without_partial_ones() -> None:
    log = a_log(size=SIZE, clock=Clock(NOON))
    checkpoint = log.sign()
    grow(log, 1000)
    log.replaced = {"checkpoint": checkpoint.encode(), "tile/0/002.p/48": None}
    reading = read_once(log, batch=1)
    assert (reading.state, reading.reason) == (STALE, "256 of 560 entries were read")
    assert not reading.is_complete
    assert "tile/0/002" in log.asked


def test_a_log_that_continues_with_another_key_is_accepted() -> None:
    log = a_log(size=OLD, clock=Clock(NOON))
    known = know(log)
    log.signer = SigningKey(log.origin, bytes([7] * 32))
    grow(log, SIZE)
    assert read_once(log, known).state == STALE
    assert read_once(log, replace(known, key=log.signer.verifier)).state == CURRENT


def test_a_cache_that_is_a_little_behind_changes_nothing() -> None:
    log = a_log(size=OLD, clock=Clock(NOON))
    behind = log.sign()
    log.clock.wait(5)
    grow(log, SIZE)
    known = know(log)
    log.replaced["checkpoint"] = behind.encode()
    assert facts(learn(known, read_once(log, known))) == facts(known)
    log.replaced["checkpoint"] = log.sign(seconds=NOON + 1).encode()  # the same size, but earlier
    assert facts(learn(known, read_once(log, known))) == facts(known)


# --- logs that misbehave -------------------------------------------------------------------------


def replaces(path: str, change: Callable[[bytes], object]) -> Callable[[ClaimLog], None]:
    """Return a misbehaviour: the content of a file is changed."""

    def misbehave(log: ClaimLog) -> None:
        content = log.find(path)
        assert content is not None
        log.replaced[path] = change(content)

    return misbehave


def changes_checkpoint(change: Callable[[ClaimLog], object]) -> Callable[[ClaimLog], None]:
    def misbehave(log: ClaimLog) -> None:
        content = change(log)
        log.replaced["checkpoint"] = content.encode() if isinstance(content, str) else content

    return misbehave


def becomes(make: Callable[[ClaimLog], ClaimLog]) -> Callable[[ClaimLog], None]:
    """Return a misbehaviour: another tree is signed and sent."""

    def misbehave(log: ClaimLog) -> None:
        other = make(log)
        log.entries, log.levels = other.entries, other.levels

    return misbehave


def other_entries(log: ClaimLog, start: int, end: int) -> list[bytes]:
    return [format_claim(a_claim(number, place="a.br/others")) for number in range(start, end)]


def hides_fork(log: ClaimLog) -> None:
    """Sign another tree, but send the bundles of the true one."""
    bundles = {path: log.find(path) for path in ("tile/entries/001", LAST_BUNDLE)}
    becomes(lambda log: log.fork(200).add(*other_entries(log, 200, SIZE)))(log)
    log.replaced.update(bundles)


def hides_fork_and_tiles(log: ClaimLog) -> None:
    tiles = {f"tile/0/00{number}": log.find(f"tile/0/00{number}") for number in (0, 1)}
    hides_fork(log)
    log.replaced.update(tiles)


def resign(log: ClaimLog, key: SigningKey) -> str:
    return Checkpoint(key.name, log.size, log.root()).sign(key, int(log.clock()))


STOLEN = SigningKey("dpi.inpe.br/banon/1999/01.09.22.14", bytes([9] * 32))
FOREIGN = SigningKey("b.br/service/2001/01.01.00.00", bytes(32))


def plain_only(log: ClaimLog) -> str:
    return "".join(log.sign().splitlines(keepends=True)[:-1])


def timestamp_of_other_key(log: ClaimLog) -> str:
    return plain_only(log) + resign(log, STOLEN).splitlines(keepends=True)[-1]


#: Each misbehaviour at the second reading, when the log has grown, with the state and the reason.
MISBEHAVIOURS: dict[str, tuple[Callable[[ClaimLog], None], str, str]] = {
    "gone": (changes_checkpoint(lambda log: GONE), SILENT, "can't be reached"),
    "hangs": (changes_checkpoint(lambda log: TransferResult(reason=TIMED_OUT)), SILENT, TIMED_OUT),
    "cut off": (changes_checkpoint(lambda log: TransferResult(reason=CUT_OFF)), STALE, CUT_OFF),
    "404": (changes_checkpoint(lambda log: None), STALE, "answers with status 404 (checkpoint)"),
    "500": (changes_checkpoint(lambda log: TransferResult(500)), STALE, "answers with status 500"),
    "304 unasked": (
        lambda log: log.replaced.update({LAST_BUNDLE: TransferResult(304)}),
        STALE, "answers with status 304 (tile/entries/002.p/48)",
    ),
    "no text": (changes_checkpoint(lambda log: b"\xff\xfe"), STALE, "not UTF-8"),
    "a page": (changes_checkpoint(lambda log: b"<html>"), STALE, "sends a checkpoint that is not"),
    "empty": (changes_checkpoint(lambda log: b""), STALE, "sends a checkpoint that is not valid"),
    "too long": (
        changes_checkpoint(lambda log: log.sign().encode() + bytes(MAX_CHECKPOINT)),
        STALE, "sends a checkpoint of more than 16384 bytes",
    ),
    "forged signature": (
        changes_checkpoint(lambda log: log.sign().replace("\n560\n", "\n561\n")),
        STALE, "the signature of dpi.inpe.br/banon/1999/01.09.22.14 is false",
    ),
    "another key": (
        changes_checkpoint(lambda log: resign(log, STOLEN)), STALE, "not signed by the known key",
    ),
    "another origin": (
        changes_checkpoint(lambda log: resign(log, FOREIGN)), STALE, "the log 'b.br/service",
    ),
    "no time": (changes_checkpoint(plain_only), STALE, "has no signature with a time"),
    "the time of another key": (
        changes_checkpoint(timestamp_of_other_key), STALE, "has no signature with a time",
    ),
    "the future": (
        changes_checkpoint(lambda log: log.sign(seconds=NOON + 90_000)), STALE, "in the future",
    ),
    "an old time": (
        changes_checkpoint(lambda log: log.sign(seconds=NOON + 10)),
        STALE, "signed its checkpoint 3590 s ago",
    ),
    "replayed": (
        changes_checkpoint(lambda log: log.sign(OLD - 10, NOON - 10)),
        STALE, "sends an old checkpoint again",
    ),
    "replayed, same size": (
        changes_checkpoint(lambda log: log.sign(OLD, NOON - 10)),
        STALE, "sends an old checkpoint again",
    ),
    "truncated": (
        changes_checkpoint(lambda log: log.sign(OLD - 10)),
        FORKED, "signed 290 entries after 300 entries",
    ),
    "emptied": (becomes(lambda log: log.fork(0)), FORKED, "signed 0 entries after 300 entries"),
    "same size": (
        becomes(lambda log: log.fork(OLD - 1).add(*other_entries(log, 0, 1))),
        FORKED, "signed two different logs with 300 entries",
    ),
    "reordered": (
        becomes(lambda log: log.fork(0).add(*reorder(log.entries))),
        FORKED, "signed a log with 560 entries that does not continue its log with 300 entries",
    ),
    "an old entry changed": (
        becomes(lambda log: log.fork(100).add(b"x", *log.entries[101:])),
        FORKED, "does not continue",
    ),
    "an old entry left out": (
        becomes(lambda log: log.fork(100).add(*log.entries[101:])), FORKED, "does not continue",
    ),
    "forked": (
        becomes(lambda log: log.fork(299).add(*other_entries(log, 299, SIZE))),
        FORKED, "does not continue",
    ),
    "forked with the true entries": (hides_fork, FORKED, "does not continue"),
    "forked with the true tiles": (
        hides_fork_and_tiles, STALE, "sends entries that are not those of its checkpoint",
    ),
    "garbled bundle": (
        replaces(LAST_BUNDLE, garble), STALE, "sends entries that are not those of its checkpoint",
    ),
    "garbled length": (
        replaces(LAST_BUNDLE, lambda data: garble(data, 0)), STALE, "another length",
    ),
    "garbled known entry": (
        replaces("tile/entries/001", lambda data: garble(data, 30)),
        STALE, "tile/entries/001 does not repeat the entries that were read before",
    ),
    "short bundle": (replaces(LAST_BUNDLE, lambda data: data[:-1]), STALE, "another length"),
    "an entry more": (
        replaces(LAST_BUNDLE, lambda data: data + b"\0\1x"), STALE, "another length",
    ),
    "entries reordered": (
        replaces(LAST_BUNDLE, lambda data: encode_entries(reorder(decode_entries(data, 48)))),
        STALE, "the root of 560 entries is another one",
    ),
    "bundle missing": (
        replaces(LAST_BUNDLE, lambda data: None), STALE, "answers with status 404",
    ),
    "bundle too large": (
        replaces(LAST_BUNDLE, lambda data: TransferResult(reason="answers with more than 9 bytes")),
        STALE, "answers with more than 9 bytes (tile/entries/002.p/48)",
    ),
    "silent after the checkpoint": (
        replaces(LAST_BUNDLE, lambda data: GONE), STALE, "can't be reached (tile/entries/002.p/48)",
    ),
}  # fmt: skip


def second_reading(misbehave: Callable[[ClaimLog], None]) -> tuple[KnownLog, Reading]:
    """Read a log, let it grow for an hour and misbehave, and read it again."""
    log = a_log(size=OLD, clock=Clock(NOON))
    known = know(log)
    log.clock.wait(3600)
    grow(log, SIZE)
    misbehave(log)
    return known, read_once(log, known)


@for_each("name", MISBEHAVIOURS)
def test_a_misbehaviour_leads_to_a_state_with_a_reason_and_stores_nothing(name: str) -> None:
    misbehave, state, reason = MISBEHAVIOURS[name]
    known, reading = second_reading(misbehave)
    assert reading.state == state
    assert reason in str(reading.reason)
    assert "\n" not in str(reading.reason)
    if name == "an old time":  # all is right, but nothing newer is known
        return
    assert reading.entries == []
    assert reading.bundles == {}
    assert reading.frontier.to_bytes() == known.frontier.to_bytes()
    assert reading.checkpoint == known.checkpoint


@for_each("name", [name for name, case in MISBEHAVIOURS.items() if case[1] != FORKED])
def test_a_log_that_behaves_again_is_current(name: str) -> None:
    log = a_log(size=OLD, clock=Clock(NOON))
    known = know(log)
    log.clock.wait(3600)
    grow(log, SIZE)
    tree = log.entries, log.levels
    MISBEHAVIOURS[name][0](log)
    known = learn(known, read_once(log, known))
    (log.entries, log.levels), log.replaced = tree, {}
    log.clock.wait(60)
    assert know_again(log, known).state == CURRENT


def facts(known: KnownLog) -> tuple[object, ...]:
    """Return what is known in a form that can be compared."""
    frontier = known.frontier
    return frontier.size, frontier.to_bytes(), known.checkpoint, known.state, known.signed_at


def know_again(log: ClaimLog, known: KnownLog) -> Reading:
    reading = read_once(log, known)
    assert learn(known, reading).frontier.root() == log.root()
    return reading


def test_an_archive_that_was_never_read_is_not_silent() -> None:
    log = a_log(size=OLD, clock=Clock(NOON))
    log.replaced["checkpoint"] = GONE
    reading = read_once(log)
    assert (reading.state, reading.reason) == (NEW, "can't be reached")


def test_an_archive_whose_entries_were_not_all_read_is_not_silent() -> None:
    log = a_log(size=SIZE, clock=Clock(NOON))
    known = learn(KnownLog(log.signer.verifier), read_once(log, batch=1))
    log.replaced = {"tile/entries/001": GONE}
    reading = read_once(log, known, batch=1)
    assert (reading.state, reading.is_complete) == (STALE, True)
    assert reading.frontier.size == 256


def test_a_batch_that_is_not_part_of_the_tree_is_not_accepted() -> None:
    log = a_log(size=SIZE, clock=Clock(NOON))
    log.replaced["tile/entries/000"] = garble(log.find("tile/entries/000") or b"")
    reading = read_once(log, batch=1)
    assert (reading.state, reading.entries) == (STALE, [])
    assert "the root of 256 entries is another one" in str(reading.reason)


def test_a_tile_that_is_too_short_is_not_accepted() -> None:
    log = a_log(size=SIZE, clock=Clock(NOON))
    log.replaced["tile/1/000.p/2"] = b"short"
    reading = read_once(log, batch=1)
    assert (reading.state, reading.entries) == (STALE, [])
    assert "tile/1/000.p/2 has 5 bytes, not 2 hashes" in str(reading.reason)


# --- random mutations ----------------------------------------------------------------------------

#: The number of random mutations; the acceptance test of the federation needs 10**6.
MUTATIONS = int(os.environ.get("IBI_TEST_LOG_MUTATIONS", "2000"))


def mutate(log: ClaimLog, rng: random.Random) -> str:
    """Change the log in a random way that must not be accepted, and return what was changed."""
    kind = rng.choice(("bytes", "bytes", "bytes", "entries", "tree", "signature"))
    if kind == "bytes":  # a file of the log differs from the signed one
        path = rng.choice(("checkpoint", "tile/entries/000.p/21", "tile/entries/000.p/21"))
        content = bytearray(log.find(path) or b"")
        for _ in range(rng.choice((1, 1, 1, 2, 5))):
            place = rng.randrange(len(content))
            action = rng.randrange(4)
            if action == 0:
                content[place] ^= 1 << rng.randrange(8)
            elif action == 1:
                del content[place : place + rng.randrange(1, 9)]
            elif action == 2:
                content[place:place] = rng.randbytes(rng.randrange(1, 9))
            else:
                other = rng.randrange(len(content))
                content[place], content[other] = content[other], content[place]
            if not content:
                break
        log.replaced[path] = bytes(content)
        return "" if content == log.find(path) else path
    if kind == "entries":  # the bundle has other entries, in the right form
        entries = list(log.entries)
        action = rng.randrange(4)
        first, second = rng.randrange(len(entries)), rng.randrange(len(entries))
        if action == 0:
            entries[first], entries[second] = entries[second], entries[first]
        elif action == 1:
            entries[first] = entries[second]
        elif action == 2:
            entries[first] = format_claim(a_claim(rng.randrange(10**6), place="a.br/other"))
        else:
            entries[first], entries[second] = entries[first][:5], entries[second] + b"x"
        log.replaced["tile/entries/000.p/21"] = encode_entries(entries)
        return "" if entries == log.entries else kind
    if kind == "tree":  # the true key signs a tree that does not continue the known one
        size = rng.randrange(12)
        end = rng.randrange(size, 30)
        other = log.fork(size).add(*other_entries(log, size, end))
        log.entries, log.levels = other.entries, other.levels
        return kind
    checkpoint = Checkpoint(
        rng.choice((log.origin, "b.br/service/2001/01.01.00.00")),
        rng.choice((log.size, rng.randrange(100))),
        rng.choice((log.root(), rng.randbytes(32))),
    )
    lines = checkpoint.sign(STOLEN, NOON + 1).splitlines(keepends=True)
    own = log.sign().splitlines(keepends=True)
    for number in (-2, -1):
        lines[number] = rng.choice((lines[number], own[number], ""))
    text = "".join(lines)
    log.replaced["checkpoint"] = text.encode()
    is_own = checkpoint == Checkpoint(log.origin, log.size, log.root())
    return "" if is_own and lines[-2:] == own[-2:] else kind


def test_random_mutations_of_a_log_are_never_accepted() -> None:
    """Each mutation is read by a resolver that knows 12 of 21 entries, or none."""
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    log = a_log(size=12, clock=Clock(NOON))
    twelve, nothing = know(log), KnownLog(log.signer.verifier)
    log.clock.wait(1)
    grow(log, 21)
    tree = log.entries, log.levels
    for number in range(MUTATIONS):
        (log.entries, log.levels), log.replaced = tree, {}
        what = mutate(log, rng)
        # a resolver that knows nothing can't tell that a tree replaces another one
        known = twelve if what == "tree" else rng.choice((twelve, nothing))
        reading = read_once(log, known)
        context = f"mutation {number} of seed {seed}: {what or 'none'}"
        if what:
            assert reading.state == FORKED if what == "tree" else reading.state in (STALE, NEW), (
                context
            )
            assert reading.entries == [], context
            assert reading.frontier.root() == known.frontier.root(), context
        else:
            assert reading.state == CURRENT, context
