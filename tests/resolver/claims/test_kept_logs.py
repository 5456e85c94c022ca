"""The entries of logs that are kept on the disk: written in any steps, read in their order."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flask_ibi_archive.core.claims.claim import Claim, format_claim
from flask_ibi_archive.core.claims.tiles import WIDTH
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.errors import ClaimError
from flask_ibi_archive.resolver.old_claims.kept_logs import KeptLogs


def make_claim(number: int, state: State = State.ORIGINAL) -> Claim:
    ibi = f"a.br/x/2001/01.{number // 60 // 24 + 1:02}.{number // 60 % 24:02}.{number % 60:02}"
    return Claim(ibi, None, state, "2026-03-01T12:00:00Z")


def write(logs: KeptLogs, archive_id: int, entries: list[bytes], log_number: int = 1) -> None:
    """Write all bundles of a log."""
    for number in range((len(entries) + WIDTH - 1) // WIDTH):
        part = entries[number * WIDTH : (number + 1) * WIDTH]
        logs.write_bundle(archive_id, log_number, number, part)


@given(
    steps=st.lists(st.integers(1, 2 * WIDTH), max_size=6),
    start=st.integers(0, 3 * WIDTH),
)
def test_a_log_that_grew_in_any_steps_is_read_in_its_order(steps: list[int], start: int) -> None:
    with TemporaryDirectory() as folder:
        logs = KeptLogs(Path(folder) / "logs")
        entries: list[bytes] = []
        for step in steps:
            first = len(entries) // WIDTH
            entries += [b"%d" % (len(entries) + more) for more in range(step)]
            for number in range(first, (len(entries) + WIDTH - 1) // WIDTH):
                logs.write_bundle(7, 1, number, entries[number * WIDTH : (number + 1) * WIDTH])
        assert list(logs.read_entries(7)) == list(enumerate(entries))
        assert list(logs.read_entries(7, start)) == list(enumerate(entries))[start:]
        # no shorter version of a bundle remains
        files = [path for path in Path(folder).rglob("*") if path.is_file()]
        assert len(files) == (len(entries) + WIDTH - 1) // WIDTH


def test_the_newest_log_counts(tmp_path: Path) -> None:
    logs = KeptLogs(tmp_path / "logs")
    assert logs.list_archives() == []
    assert list(logs.read_entries(3)) == []
    write(logs, 3, [b"old"] * 300, log_number=9)
    write(logs, 3, [b"new"], log_number=10)
    write(logs, 12, [b"other"])
    assert logs.list_archives() == [3, 12]
    assert logs.find_log_number(3) == 10
    assert list(logs.read_entries(3)) == [(0, b"new")]


def test_claims_are_read_without_what_the_index_leaves_out(tmp_path: Path) -> None:
    logs = KeptLogs(tmp_path)
    service = "a.br/service/2001/01.01.00.00"
    claims = [make_claim(0), replace(make_claim(1, State.COPY), original_archive=service)]
    write(logs, 1, [b"junk", *map(format_claim, claims)])
    assert list(logs.read_claims(1)) == claims
    assert list(logs.read_claims(1, {service})) == claims[:1]


@pytest.mark.parametrize("content", [b"", b"no gzip", None], ids=["empty", "other", "truncated"])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes | None) -> None:
    logs = KeptLogs(tmp_path)
    write(logs, 1, [b"a", b"b"])
    path = tmp_path / "1" / "1" / "tile" / "entries" / "000.p" / "2.gz"
    path.write_bytes(path.read_bytes()[:-3] if content is None else content)
    with pytest.raises(ClaimError, match=r"000\.p/2\.gz"):
        list(logs.read_entries(1))
