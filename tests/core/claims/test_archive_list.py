"""The signed list of included Archives: written, read, and refused if it is false or malformed."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flask_ibi_archive.core.claims.archive_list import (
    ArchiveList,
    ListedArchive,
    format_archives,
    open_list,
    sign_list,
)
from flask_ibi_archive.core.claims.keys import SigningKey
from flask_ibi_archive.errors import ClaimError

KEY = SigningKey("J8LNKB5R7W/3FUQHC5@urlib.net", b"k" * 32)
OTHER = SigningKey(KEY.name, b"o" * 32)
NOON = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
ARCHIVE = ListedArchive(
    "dpi.inpe.br/banon/1999/01.09.22.14",
    "banon-pc2.dpi.inpe.br:8080",
    "150.163.2.166",
    "flask_ibi_archive 0.1.0",
    NOON,
)

times = st.datetimes(
    datetime(1995, 1, 1), datetime(9999, 12, 31), timezones=st.just(timezone.utc)
).map(lambda moment: moment.replace(microsecond=0))
keys = st.builds(
    SigningKey, st.text("abc/.#@", min_size=1), st.binary(min_size=32, max_size=32)
).map(lambda key: key.verifier)
archives = st.builds(
    ListedArchive,
    st.integers(10, 59).map(lambda number: f"a.br/service/2000/01.01.00.{number}"),
    st.sampled_from(["a.br", "a.example.org:8080", "127.0.0.1:5000", "[2001:db8::1]:80"]),
    st.sampled_from(["127.0.0.1", "2001:db8::1"]),
    st.sampled_from(["1", "flask_ibi_archive 0.1.0", "2014:11.09.02.16.15"]),
    times,
    st.none() | times,
    st.lists(st.tuples(times, keys), max_size=3).map(tuple),
)


@given(st.lists(archives, max_size=5, unique_by=lambda one: one.service_ibi).map(tuple), times)
def test_a_list_is_read_as_it_was_written(
    listed: tuple[ListedArchive, ...], time: datetime
) -> None:
    note = sign_list(format_archives(listed), time, KEY)
    assert open_list(note, KEY.verifier) == ArchiveList(time, listed)
    with pytest.raises(ClaimError, match="not signed by"):
        open_list(note, OTHER.verifier)


def test_the_text_of_a_list() -> None:
    note = sign_list(format_archives((ARCHIVE,)), NOON, KEY)
    assert note.partition("\n\n")[0] == (
        "ibi-archives/v1\n"
        "time 2026-03-01T12:00:00Z\n"
        "address banon-pc2.dpi.inpe.br:8080 included 2026-03-01T12:00:00Z ip 150.163.2.166"
        " platformversion {flask_ibi_archive 0.1.0} service dpi.inpe.br/banon/1999/01.09.22.14"
    )


@given(st.data())
def test_no_changed_list_is_accepted(data: st.DataObject) -> None:
    note = sign_list(format_archives((ARCHIVE,)), NOON, KEY)
    place = data.draw(st.integers(0, len(note) - 1))
    edit = data.draw(st.sampled_from(["", "x", "\n", "4", note[place] * 2]))
    changed = note[:place] + edit + note[place + 1 :]
    if changed != note:
        with pytest.raises(ClaimError):
            open_list(changed, KEY.verifier)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ibi-archives/v1\n",
        "ibi-archives/v2\ntime 2026-03-01T12:00:00Z\n",
        "ibi-archives/v1\ntime yesterday\n",
        "ibi-archives/v1\ntime 2026-02-30T12:00:00Z\n",
        "ibi-archives/v1\n{line}",
        "ibi-archives/v1\ntime 2026-03-01T12:00:00Z\n\n",
        "ibi-archives/v1\ntime 2026-03-01T12:00:00Z\n{line}{line}",
        "ibi-archives/v1\ntime 2026-03-01T12:00:00Z\n{line} {\n",
    ],
)
def test_a_malformed_list_is_refused(text: str) -> None:
    line = format_archives((ARCHIVE,))
    lines = text.replace("{line}", line)
    note = f"{lines}\n{KEY.sign(lines).format()}"
    with pytest.raises(ClaimError):
        open_list(note, KEY.verifier)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("service dpi.inpe.br", "service DPI.inpe.br"),
        ("service dpi.inpe.br/banon", "service nothing"),
        ("address banon-pc2.dpi.inpe.br:8080", "address http://x"),
        (
            "address banon-pc2.dpi.inpe.br:8080",
            "address a.br address b.br".replace("address b", "b"),
        ),
        ("address banon-pc2.dpi.inpe.br:8080", f"address {'a' * 300}.br"),
        ("ip 150.163.2.166", "ip 1"),
        ("ip 150.163.2.166 ", ""),
        ("included 2026-03-01T12:00:00Z", "included {}"),
        ("ip 150.163.2.166", "ip 150.163.2.166 keys a"),
        ("ip 150.163.2.166", "ip 150.163.2.166 keys {2026-03-01T12:00:00Z a+b+c}"),
        ("ip 150.163.2.166", "ip 150.163.2.166 confirmed no"),
    ],
)
def test_wrong_values_are_refused(right: str, wrong: str) -> None:
    line = format_archives((ARCHIVE,))
    assert right in line
    note = sign_list(line.replace(right, wrong), NOON, KEY)
    with pytest.raises(ClaimError):
        open_list(note, KEY.verifier)
