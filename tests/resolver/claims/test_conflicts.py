"""Conflicts: two Archives claim the Original of one identifier."""

from __future__ import annotations

from datetime import timedelta

import pytest
from support.registries import NOON, a_registry, included

from flask_ibi_archive.resolver.old_claims.conflicts import (
    end_conflicts,
    list_conflicts,
    note_rival,
)
from flask_ibi_archive.server.database.database import Database

IBI, OTHER = "8JMKD3MGP8W/34PGRBS", "8JMKD3MGP8W/35MMLL8"
LATER = NOON + timedelta(hours=1)


@pytest.fixture
def ids(database: Database) -> list[int]:
    """The ids of three included Archives."""
    return list(included(a_registry(database), 3))


def see(database: Database) -> list[tuple[str, int, int, bool]]:
    """Return the identifier, both Archives and whether the conflict has ended, the newest first."""
    return [
        (one.ibi, one.claimants[0].id, one.claimants[1].id, one.ended_at is not None)
        for one in database.read(list_conflicts)
    ]


def test_a_conflict_is_stored_once_whichever_archive_is_read_first(
    database: Database, ids: list[int]
) -> None:
    a, b, c = ids
    with database.writing() as connection:
        assert note_rival(connection, IBI, b, a, NOON)
        assert not note_rival(connection, IBI, a, b, LATER)
        assert not note_rival(connection, IBI, b, a, LATER)
        assert note_rival(connection, IBI, a, c, NOON)
        assert note_rival(connection, OTHER, a, b, NOON)
    assert see(database) == [(OTHER, a, b, False), (IBI, a, c, False), (IBI, a, b, False)]
    [found] = database.read(lambda connection: list_conflicts(connection, limit=1))
    assert found.found_at == NOON
    assert [one.address for one in found.claimants] == ["a0.example.org:80", "a1.example.org:80"]
    assert {one.email for one in found.claimants} == {"banon@dpi.inpe.br"}


def test_a_conflict_ends_when_one_of_its_archives_claims_something_else(
    database: Database, ids: list[int]
) -> None:
    a, b, c = ids
    with database.writing() as connection:
        for pair in ((a, b), (a, c), (b, c)):
            note_rival(connection, IBI, *pair, NOON)
        note_rival(connection, OTHER, a, b, NOON)
        assert end_conflicts(connection, IBI, b, LATER) == 2
        assert end_conflicts(connection, IBI, b, LATER + timedelta(1)) == 0
    still_open = [one for one in see(database) if not one[3]]
    assert still_open == [(OTHER, a, b, False), (IBI, a, c, False)]
    assert {one.ended_at for one in database.read(list_conflicts)} == {LATER, None}
    with database.writing() as connection:  # the same claims once more: a new conflict
        assert note_rival(connection, IBI, a, b, LATER)
    assert see(database)[0] == (IBI, a, b, False)
    assert len(see(database)) == 5
