"""The rules about editions and files that the items of all catalogues share."""

from __future__ import annotations

from itertools import pairwise

from support.cases import for_each
from support.vectors import load

from flask_ibi_archive.core.protocol.catalogue import CatalogueItem, File, Scope

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
