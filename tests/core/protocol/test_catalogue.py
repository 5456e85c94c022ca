"""The rules about editions and files that the items of all catalogues share."""

from __future__ import annotations

from datetime import date
from itertools import pairwise

import pytest
from support.cases import for_each
from support.vectors import load

from flask_ibi_archive.core.protocol.catalogue_items import CatalogueItem, File, Scope
from flask_ibi_archive.core.protocol.states import Event, State, next_state
from flask_ibi_archive.errors import StorageError

CASES = load("core/catalogue.json")


@for_each(("states", "last"), CASES["the last edition is the last one that is not deleted"])
def test_the_last_edition_is_the_last_one_that_is_not_deleted(
    states: list[str | None], last: int | None
) -> None:
    for follows in (True, False):
        scope = Scope(follow_editions=follows)
        editions = [
            CatalogueItem(number, state, None, None, scope=scope)
            for number, state in enumerate(["Original", *states])
        ]
        first = editions[0]
        for earlier, later in pairwise(editions):
            earlier.following = later
        if follows:
            assert first.last_edition() is (None if last is None else editions[last])
        else:
            assert first.last_edition() is (None if states else first)


@for_each(
    ("paths", "file"),
    [
        (("a.txt",), File("a.txt", None)),
        (("x", "b.txt", "a.txt"), File("b.txt", "http://b.br/b.txt")),
        (("x",), None),
        ((), None),
    ],
)
def test_the_first_path_that_exists_is_the_requested_file(
    paths: tuple[str, ...], file: File | None
) -> None:
    files = {"a.txt": None, "b.txt": "http://b.br/b.txt"}
    item = CatalogueItem(1, "Original", None, None, files=files, scope=Scope(paths=paths))
    assert item.file() == file


@for_each(
    ("networks", "embargo", "address", "is_allowed"),
    [
        (None, None, "192.0.2.1", True),
        (None, date(2026, 1, 2), "192.0.2.1", False),
        (["10.0.0.0/8"], date(2026, 1, 1), "::ffff:10.1.2.3", True),
        (["10.0.0.0/8"], None, "192.0.2.1", False),
    ],
)
def test_a_user_reads_the_files_inside_the_networks_and_after_the_embargo(
    networks: list[str] | None, embargo: date | None, address: str, is_allowed: bool
) -> None:
    item = CatalogueItem(1, "Original", None, None, networks=networks, embargo=embargo)
    item.today = date(2026, 1, 1)
    assert item.allows(address) is is_allowed


def test_an_event_that_the_state_does_not_allow_is_refused() -> None:
    assert next_state(State.ORIGINAL, Event.DELETE, "a") is State.DELETED
    with pytest.raises(StorageError) as caught:
        next_state(State.DELETED, Event.EDIT, "a")
    assert str(caught.value) == (
        "a has the state Deleted: it can't be edited; only an item that is Original can"
    )
    with pytest.raises(StorageError, match=r"^a does not exist: it can't be deleted; only"):
        next_state(None, Event.DELETE, "a")
