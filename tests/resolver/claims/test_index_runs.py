"""The files of the index: search, merging, and damage."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import for_each

from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.resolver.old_claims import index_runs
from flask_ibi_archive.resolver.old_claims.index_runs import Holding, Run, merge, pack, write_run

#: A key and the id of an Archive, with the number of the state.
Bindings = dict[tuple[bytes, int], int]

DICE = random.Random(30)
COUNT = 3000


def write(path: Path, bindings: Bindings) -> Run:
    """Write a run with bindings, and open it."""
    records = sorted(pack(key, archive, state) for (key, archive), state in bindings.items())
    assert write_run(path, [b"".join(records)]) == len(records)
    return Run(path)


def read(run: Run) -> Bindings:
    return unpack(run.read(0, run.records))


def unpack(block: bytes) -> Bindings:
    records = (block[start : start + 20] for start in range(0, len(block), 20))
    return {(record[:16], int.from_bytes(record[16:19], "big")): record[19] for record in records}


def neighbours(key: bytes) -> list[bytes]:
    """Return the keys directly below and above a key, as far as they exist."""
    number = int.from_bytes(key, "big")
    return [n.to_bytes(16, "big") for n in (number - 1, number + 1) if 0 <= n < 2**128]


# --- searching -----------------------------------------------------------------------------------

#: Keys as they are, and keys that someone chose so that the search guesses wrong.
DISTRIBUTIONS: dict[str, list[bytes]] = {
    "none": [],
    "one": [b"k" * 16],
    "even": [DICE.randbytes(16) for _ in range(COUNT)],
    "lowest and highest": [bytes(16), b"\xff" * 16],
    "equal in 8 bytes": [b"collides" + DICE.randbytes(8) for _ in range(COUNT)],
    "equal in 15 bytes": [b"fifteen bytes.." + bytes([n]) for n in range(256)],
    "low, and one high": [bytes(8) + DICE.randbytes(8) for _ in range(COUNT)] + [b"\xff" * 16],
    "high, and one low": [bytes(16)] + [b"\xff" * 8 + DICE.randbytes(8) for _ in range(COUNT)],
    "doubling": [(2**n).to_bytes(16, "big") for n in range(128)],
    "squares": [(n**6).to_bytes(16, "big") for n in range(COUNT)],
    "towards the highest": [(2**128 - 1 - n**8).to_bytes(16, "big") for n in range(COUNT)],
    # each key is also in the records before and after it, at places where no record begins
    "periodic": [bytes([a, b, c, 1] * 4) for a in range(8) for b in range(8) for c in range(8)],
}


@for_each("name", DISTRIBUTIONS)
def test_each_key_is_found_however_the_keys_are_distributed(name: str, tmp_path: Path) -> None:
    keys = set(DISTRIBUTIONS[name])
    run = write(tmp_path / name, {(key, int.from_bytes(key[:3], "big")): 1 for key in keys})
    for key in keys:
        assert run.find(key) == [Holding(int.from_bytes(key[:3], "big"), 1)]
        for other in neighbours(key):
            assert bool(run.find(other)) is (other in keys)
    assert all(bool(run.find(key)) is (key in keys) for key in (bytes(16), b"\xff" * 16))


@for_each("claimants", [1, 2, 127, 128, 129, 1000])
def test_all_claimants_of_a_key_are_found_in_the_order_of_their_ids(
    claimants: int, tmp_path: Path
) -> None:
    popular = [bytes(16), b"\x80" * 16, b"\xff" * 16]
    bindings = {(DICE.randbytes(16), 1): 1 for _ in range(500)}
    for key in popular:
        bindings |= {(key, 3 * archive): archive % 3 + 1 for archive in range(claimants)}
    run = write(tmp_path / str(claimants), bindings)
    expected = [Holding(3 * archive, archive % 3 + 1) for archive in range(claimants)]
    assert [run.find(key) for key in popular] == [expected] * 3


@for_each(("name", "most"), [("even", 4), ("low, and one high", 16), ("squares", 16)])
def test_a_search_reads_few_blocks(name: str, most: int, tmp_path: Path) -> None:
    run = write(tmp_path / name, {(key, 1): 1 for key in DISTRIBUTIONS[name]})
    reads = count_reads(run, DISTRIBUTIONS[name])
    assert sum(reads) <= most * len(reads)
    assert max(reads) <= 2 * COUNT.bit_length()


def count_reads(run: Run, keys: list[bytes]) -> list[int]:
    counts = []
    whole = run.read

    def counted(position: int, count: int) -> bytes:
        counts[-1] += 1
        return whole(position, count)

    run.read = counted  # type: ignore[method-assign]
    for key in keys:
        counts.append(0)
        assert run.find(key)
    return counts


@given(
    st.dictionaries(
        st.tuples(st.binary(min_size=16, max_size=16), st.integers(0, 2**24 - 1)), st.integers(1, 3)
    )
)
def test_a_file_returns_what_was_written(tmp_path: Path, bindings: Bindings) -> None:
    run = write(tmp_path / "run", bindings)
    assert read(run) == bindings
    for key, _ in bindings:
        assert run.find(key) == [
            Holding(archive, bindings[key, archive])
            for archive in sorted(archive for name, archive in bindings if name == key)
        ]


# --- merging -------------------------------------------------------------------------------------

KEYS = st.sampled_from([bytes(16), b"\0" * 15 + b"\1", b"k" * 16, b"\xff" * 16]) | st.binary(
    min_size=16, max_size=16
)
BINDINGS = st.dictionaries(st.tuples(KEYS, st.integers(0, 5)), st.integers(1, 3), max_size=60)


@given(parts=st.lists(BINDINGS, min_size=1, max_size=5), block=st.sampled_from([2, 3, 8, 8192]))
def test_merging_keeps_the_newest_state(tmp_path: Path, parts: list[Bindings], block: int) -> None:
    runs = [write(tmp_path / str(number), part) for number, part in enumerate(parts)]
    expected: Bindings = {}
    for part in parts:
        expected |= part
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_runs, "MERGE_BLOCK", block)
        records = b"".join(merge(runs))
    assert unpack(records) == expected
    assert len(records) == 20 * len(expected)
    assert records == b"".join(sorted(records[n : n + 20] for n in range(0, len(records), 20)))


def test_a_key_with_more_claimants_than_a_block_is_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_runs, "MERGE_BLOCK", 8)
    first = {(b"k" * 16, archive): 1 for archive in range(0, 200, 2)}
    second = {(b"k" * 16, archive): 2 for archive in range(0, 200, 3)} | {(b"z" * 16, 1): 1}
    runs = [write(tmp_path / "1", first), write(tmp_path / "2", second)]
    assert unpack(b"".join(merge(runs))) == first | second


# --- damage --------------------------------------------------------------------------------------


def flip(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


@for_each(
    ("change", "reason"),
    [
        (lambda content: b"", "its header is wrong"),
        (lambda content: content[:10], "its header is wrong"),
        (lambda content: b"SQLite format 3\0" + content[16:], "its header is wrong"),
        *[
            (lambda content, place=place: flip(content, place), "its header is wrong")
            for place in range(24)
        ],
        (lambda content: content[:-1], "its size is wrong"),
        (lambda content: content[:-20], "its size is wrong"),
        (lambda content: content + bytes(20), "its size is wrong"),
    ],
)
def test_a_damaged_file_is_refused(
    change: Callable[[bytes], bytes], reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "run"
    write(path, {(os.urandom(16), 1): 1 for _ in range(50)})
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(StorageError) as error:
        Run(path)
    assert str(error.value) == (
        f"the file {path} of the index of claims is damaged: {reason};"
        " run: flask ibi-resolver rebuild-index"
    )


def test_damaged_content_is_not_merged(tmp_path: Path) -> None:
    path = tmp_path / "run"
    write(path, {(os.urandom(16), 1): 1 for _ in range(50)})
    path.write_bytes(flip(path.read_bytes(), 500))
    with pytest.raises(StorageError, match=r"checksum of its content is wrong.* rebuild-index"):
        list(merge([Run(path)]))


def test_a_file_that_becomes_shorter_gives_no_wrong_answers(tmp_path: Path) -> None:
    path = tmp_path / "run"
    run = write(path, {(b"k" * 16, 1): 1})
    os.truncate(path, 30)
    with pytest.raises(StorageError, match=r"its end is missing.* rebuild-index"):
        run.find(b"k" * 16)


def test_a_file_that_was_deleted_can_still_be_read(tmp_path: Path) -> None:
    run = write(tmp_path / "run", {(b"k" * 16, 1): 1})
    run.path.unlink()
    assert run.find(b"k" * 16) == [Holding(1, 1)]


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> list[bytes]:
        raise OSError(28, "No space left on device")

    with pytest.raises(StorageError, match="can't be written"):
        write_run(tmp_path / "run", (fail() for _ in range(1)))  # type: ignore[misc]
    assert not list(tmp_path.iterdir())
