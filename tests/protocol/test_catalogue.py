"""The rules that all catalogues share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from support.cases import for_each

from flask_ibi_archive.protocol.catalogue import (
    CatalogueItem,
    File,
    Scope,
    choose_file,
    choose_last_edition,
)

FOLLOWS = Scope(frozenset(), follow_editions=True)
FOLLOWS_NOT = Scope(frozenset(), follow_editions=False)


@dataclass(eq=False)
class Item:
    """An item; the state None means that it is in another Archive."""

    state: str | None = "Original"


@for_each(
    ("states", "last"),
    [
        ([], 0),
        (["Original"], 1),
        (["Original", "Copy"], 2),
        (["Original", "Deleted"], 1),
        (["Deleted", "Original", "Deleted", "Deleted"], 2),
        (["Deleted", "Deleted"], 0),
        ([None], None),
        (["Original", None], None),
        ([None, "Original"], 2),
        (["Original", None, "Deleted"], None),
    ],
)
def test_the_last_edition_is_the_last_one_that_is_not_deleted(
    states: list[str | None], last: int | None
) -> None:
    editions = [Item(state) for state in ("Original", *states)]
    first, *later = cast(list[CatalogueItem], editions)
    expected = None if last is None else editions[last]
    assert choose_last_edition(first, later, FOLLOWS) is expected
    assert choose_last_edition(first, later, FOLLOWS_NOT) is (None if later else first)


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
    assert choose_file(paths, {"a.txt": None, "b.txt": "http://b.br/b.txt"}) == file
