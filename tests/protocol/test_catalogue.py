"""The rules that all catalogues share, and the catalogue without access rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from support.cases import for_each

from flask_ibi_archive.protocol.catalogue import (
    Catalogue,
    CatalogueItem,
    File,
    OpenCatalogue,
    OwnMetadata,
    Scope,
    choose_file,
    choose_last_edition,
    open_item,
)

FOLLOWS = Scope(frozenset(), follow_editions=True)
FOLLOWS_NOT = Scope(frozenset(), follow_editions=False)


@dataclass(eq=False)
class Item:
    """An item that no user may read; the state None means that it is in another Archive."""

    name: str
    state: str | None = "Original"
    others: dict[str, Any] = field(default_factory=dict)

    def allows(self, address: str) -> bool:
        return False

    def metadata(self) -> Any:
        return self.others.get("metadata")

    def next_edition(self) -> Any:
        return self.others.get("next")

    def last_edition(self) -> Any:
        return self.others.get("last")

    def translations(self) -> Mapping[str, Any]:
        return {"pt": self.others["pt"]} if "pt" in self.others else {}


def open_one(item: Item) -> CatalogueItem:
    return open_item(cast(CatalogueItem, item))


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
    editions = [Item(str(number), state) for number, state in enumerate(["Original", *states])]
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


def test_an_open_catalogue_allows_the_files_of_all_items_to_which_relations_lead() -> None:
    other = Item("other")
    item = Item("item", others={"metadata": other, "last": other, "pt": other})
    asked: list[tuple[str, Scope]] = []

    class Items:
        def find(self, ibi: str, scope: Scope) -> Item | None:
            asked.append((ibi, scope))
            return item if ibi == "a" else None

    catalogue = OpenCatalogue(cast(Catalogue, Items()))
    found = catalogue.find("a", FOLLOWS)
    assert found is not None
    leads: list[Any] = [
        found.metadata(),
        found.last_edition(),
        found.translations()["pt"],
    ]
    assert [one.name for one in leads] == ["other"] * 3
    assert all(one.allows("8.8.8.8") for one in [found, *leads])
    assert not item.allows("8.8.8.8")
    assert (found.state, cast(Any, found).name) == ("Original", "item")
    assert catalogue.find("b", FOLLOWS_NOT) is None
    assert asked == [("a", FOLLOWS), ("b", FOLLOWS_NOT)]


def test_an_open_item_without_relations_has_none() -> None:
    item = open_one(Item("item"))
    assert item.metadata() is item.next_edition() is item.last_edition() is None
    assert item.translations() == {}
    own = OwnMetadata(None, {"oai_dc": None}, None)
    assert open_one(Item("item", others={"metadata": own})).metadata() is own
