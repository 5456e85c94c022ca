"""An item of the stored catalogue: who may read it, its files, metadata and relations."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import pytest
from flask import Flask
from support.archives import archive_of, import_records
from support.cases import for_each
from support.stores import ibip_of, rep_of

from flask_ibi_archive.archive.service.catalogue import StoredCatalogue
from flask_ibi_archive.core.protocol.catalogue import CatalogueItem, File, OwnMetadata, Scope
from flask_ibi_archive.core.protocol.relation_targets import add_prefixes

A, B, C, M = (rep_of(number) for number in range(4))
LEGACY = "abcZfar/1"
INSIDE, OUTSIDE = "150.163.2.175", "192.0.2.1"
Find = Callable[..., CatalogueItem]


@pytest.fixture
def find(app: Flask) -> Find:
    """A function that imports records, and returns the item with the first one.

    :param shape: the shape of the relations that are read.
    """

    def find(*records: dict[str, Any], shape: str = "", **values: Any) -> CatalogueItem:
        archive = archive_of(app)
        listed = [{"rep": A, **records[0]}, *records[1:]]
        import_records(archive, listed, on_conflict="update", take_back=True)
        scope = Scope(add_prefixes({shape}), **values)
        with archive.database.reading() as connection:
            catalogue = StoredCatalogue(connection, archive.served().id, date(2027, 2, 28))
            item = catalogue.find(A, scope)
        assert item is not None
        return item

    return find


@for_each(
    ("fields", "user", "is_allowed"),
    [
        ({}, OUTSIDE, True),
        ({"embargo": "2027-02-28"}, OUTSIDE, True),
        ({"embargo": "2027-03-01"}, OUTSIDE, False),
        ({"access": {"networks": ["150.163.0.0/16", "10.0.0.0/8"]}}, INSIDE, True),
        ({"access": {"networks": ["150.163.0.0/16"]}}, OUTSIDE, False),
    ],
)
def test_the_networks_and_the_embargo_decide_who_may_read_the_files(
    fields: dict[str, Any], user: str, is_allowed: bool, find: Find
) -> None:
    assert find(fields).allows(user) is is_allowed


@for_each(
    ("paths", "target", "file"),
    [
        ((), "b", File("b", "https://a.example/b")),
        ((), None, File("a")),
        (("b",), "a", File("b", "https://a.example/b")),
        (("c", "a"), "b", File("a")),
        (("c",), "b", None),
    ],
)
def test_the_file_is_the_requested_one_or_the_target_file(
    paths: tuple[str, ...], target: str | None, file: File | None, find: Find
) -> None:
    files = [{"path": "a"}, {"path": "b", "url": "https://a.example/b"}, {"path": "d"}]
    item = find({"files": files, **({"target_file": target} if target else {})}, paths=paths)
    assert item.file() == file
    assert item.target() is not None


URL, FORMATS = "https://a.example/m", {"marc": "https://a.example/marc"}


@for_each(
    ("metadata", "expected"),
    [
        (None, None),
        ({"url": URL}, OwnMetadata(URL, {})),
        (
            {"url": URL, "formats": FORMATS, "timestamp": "2026-01-02T03:04:05Z"},
            OwnMetadata(URL, FORMATS, "2026-01-02T03:04:05Z"),
        ),
        ({"dc": {"title": ["Rain"]}}, OwnMetadata(None, {"oai_dc": None, "note": None})),
    ],
)
def test_the_metadata_have_a_url_or_are_dublin_core(
    metadata: dict[str, Any] | None, expected: OwnMetadata | None, find: Find
) -> None:
    item = find(
        {"metadata": metadata} if metadata else {}, own_formats={"oai_dc": None, "note": None}
    )
    assert item.metadata() == expected


@for_each(
    ("ibi", "forms"),
    [(M, (M, None)), (ibip_of(7), (None, ibip_of(7))), (LEGACY, (None, LEGACY))],
)
def test_only_the_identifier_of_an_item_of_another_archive_is_known(
    ibi: str, forms: tuple[str | None, str | None], find: Find
) -> None:
    item = find({"next_edition": ibi, "metadata": {"ibi": ibi}}, next_edition=True, shape="m")
    for other in (item.next_edition(), item.metadata()):
        assert isinstance(other, CatalogueItem)
        assert (other.state, other.rep, other.ibip) == (None, *forms)
    assert item.last_edition() is None


def test_the_translations_are_the_members_of_the_group_that_have_a_language(find: Find) -> None:
    item = find(
        {"translations": {"pt": B, "en": LEGACY}}, {"rep": B, "next_edition": C}, shape="tu"
    )
    members = item.translations()
    assert {language: (member.rep, member.state) for language, member in members.items()} == {
        "pt": (B, "Original"),
        "en": (None, None),
    }
    assert members["pt"].translations().keys() == members.keys()
    following = members["pt"].next_edition()
    assert following is not None
    assert (following.rep, following.state) == (C, None)
