"""An item in the rows of the statement: who may read it, its files, metadata and relations."""

from __future__ import annotations

from datetime import date
from typing import Any

from support.cases import for_each

from flask_ibi_archive.archive.service.catalogue import Fetched, make_items
from flask_ibi_archive.core.protocol.catalogue import CatalogueItem, File, OwnMetadata, Scope

TODAY = date(2027, 2, 28)
NETWORKS = "150.163.0.0/16 2001:db8::/32"
INSIDE, OUTSIDE = "150.163.2.175", "192.0.2.1"
WHOLE = Scope()


def row(id: int = 1, **fields: Any) -> Fetched:
    values = dict.fromkeys(Fetched._fields)
    values |= {  # type: ignore[dict-item]
        "id": id,
        "state": "Original",
        "content_type": "Data",
        "timestamp": "2026-01-02 03:04:05.000000",
        **fields,
    }
    return Fetched(**values)  # type: ignore[arg-type]


def item(scope: Scope = WHOLE, **fields: Any) -> CatalogueItem:
    return items(row(**fields), scope=scope)[0]


def items(*rows: Fetched, scope: Scope = WHOLE) -> list[CatalogueItem]:
    """Return items that are in one result."""
    return make_items(rows, scope, TODAY)[1]


@for_each(
    ("fields", "user", "is_allowed"),
    [
        ({}, OUTSIDE, True),
        ({"embargo": "2027-02-27"}, OUTSIDE, True),
        ({"embargo": "2027-02-28"}, OUTSIDE, True),
        ({"embargo": "2027-03-01"}, OUTSIDE, False),
        ({"access_networks": NETWORKS}, INSIDE, True),
        ({"access_networks": NETWORKS}, "2001:db8::1", True),
        ({"access_networks": NETWORKS}, OUTSIDE, False),
        ({"access_networks": NETWORKS, "embargo": "2027-02-28"}, INSIDE, True),
        ({"access_networks": NETWORKS, "embargo": "2027-02-28"}, OUTSIDE, False),
        ({"access_networks": NETWORKS, "embargo": "2027-03-01"}, INSIDE, False),
    ],
)
def test_the_networks_and_the_embargo_decide_who_may_read_the_files(
    fields: dict[str, Any], user: str, is_allowed: bool
) -> None:
    assert item(**fields).allows(user) is is_allowed


@for_each(("others", "shown"), [(None, True), ("metadata", True), ("none", False)])
def test_the_rule_may_hide_the_metadata_too(others: str | None, shown: bool) -> None:
    assert item(access_others=others).shows_metadata is shown


def test_an_item_has_the_values_of_its_row() -> None:
    one = item(
        id=7,
        rep="a.br/b/2001/01.01.00.00",
        ibip="8JMKD3MGP8W/35MME4E",
        state="Copy",
        content_type="Metadata",
        timestamp="2026-01-02 03:04:05.000000",
        language="pt",
        is_service=1,
        formats={"marc": "https://a.example/"},
    )
    assert (one.key, one.rep, one.ibip) == (7, "a.br/b/2001/01.01.00.00", "8JMKD3MGP8W/35MME4E")
    assert (one.state, one.content_type, one.language) == ("Copy", "Metadata", "pt")
    assert (one.timestamp, one.is_service) == ("2026-01-02T03:04:05Z", True)
    assert one.formats == {"marc": "https://a.example/"}
    assert (item().is_service, item().formats) == (False, {})
    # only the identifier of an item of another Archive is known
    assert item(state="Elsewhere").state is None


@for_each(
    ("paths", "target", "file"),
    [
        ((), None, None),
        ((), "b", File("b", "https://a.example/b")),
        ((), "a", File("a")),
        ((), "c", File("c")),
        (("b",), "a", File("b", "https://a.example/b")),
        (("c", "a"), "b", File("a")),
        (("c",), "b", None),
    ],
)
def test_the_file_is_the_requested_one_or_the_target_file(
    paths: tuple[str, ...], target: str | None, file: File | None
) -> None:
    files = {"a": None, "b": "https://a.example/b"}
    rows = [row(target_path=target, file_path=path, file_url=url) for path, url in files.items()]
    [one] = items(*rows, scope=Scope(paths=paths))
    assert one.file() == file
    assert (one.target() is None) == (target is None)


URL, FORMATS = "https://a.example/m", {"marc": "https://a.example/marc"}
#: The Dublin Core that the Archive writes itself, in its formats.
OWN = OwnMetadata(None, {"oai_dc": None, "note": None})


@for_each(
    ("fields", "metadata"),
    [
        ({}, None),
        ({"metadata_url": URL}, OwnMetadata(URL, {})),
        (
            {
                "metadata_url": URL,
                "metadata_formats": FORMATS,
                "metadata_timestamp": "2026-01-02T03:04:05.6",
            },
            OwnMetadata(URL, FORMATS, "2026-01-02T03:04:05Z"),
        ),
        ({"has_dublin_core": 1}, OWN),
        ({"has_dublin_core": 1, "metadata_timestamp": "t"}, OWN),
        # an item that is not in the result
        ({"metadata_item_id": 9, "metadata_url": URL}, None),
    ],
)
def test_the_metadata_have_a_url_or_are_dublin_core(
    fields: dict[str, Any], metadata: OwnMetadata | None
) -> None:
    scope = Scope(own_formats={"oai_dc": None, "note": None})
    assert item(scope, **fields).metadata() == metadata


def test_the_metadata_may_be_another_item() -> None:
    one, other = items(row(1, metadata_item_id=2, metadata_url=URL), row(2))
    assert one.metadata() is other
    assert other.metadata() is None


def edition(
    id: int, number: int | None, state: str = "Original", series: int | None = 5
) -> Fetched:
    return row(id, edition_series_id=series, edition_no=number, state=state)


@for_each(
    ("rows", "last"),
    [
        ([edition(1, 1)], 1),
        ([edition(1, None, series=None), edition(2, None, series=None)], 1),
        # the order of the result and of the ids is not that of the editions
        ([edition(1, 2), edition(4, 4), edition(2, 3), edition(3, 1)], 4),
        ([edition(1, 1), edition(2, 2, series=6), edition(3, 3)], 3),
        ([edition(1, 1), edition(2, 2, "Deleted")], 1),
        ([edition(1, 1), edition(2, 2, "Elsewhere")], None),
        ([edition(1, 0), edition(2, 1)], 2),
        ([edition(1, None), edition(2, 1)], 2),
        ([edition(1, 1), edition(2, None)], 1),
    ],
)
def test_the_last_edition_is_that_of_the_series_with_the_highest_number(
    rows: list[Fetched], last: int | None
) -> None:
    found = items(*rows)[0].last_edition()
    assert (found and found.key) == last


@for_each(("rep", "ibip"), [("a/b/2020/01.01", "8J/2"), ("a/b/2020/01.01", None), (None, "8J/2")])
def test_the_next_edition_has_one_or_two_forms(rep: str | None, ibip: str | None) -> None:
    assert item(next_rep=rep, next_ibip=ibip).next_edition() == (rep, ibip)


def test_an_item_without_a_next_edition_has_none() -> None:
    assert item().next_edition() is None


def test_the_last_edition_is_unknown_if_the_request_does_not_follow_editions() -> None:
    scope = Scope(follow_editions=False)
    first, second = items(edition(1, 1), edition(2, 2), scope=scope)
    assert first.last_edition() is None
    assert second.last_edition() is second


def test_the_translations_are_the_members_of_the_group_that_have_a_language() -> None:
    pt, en, none, other = items(
        row(1, translation_group_id=3, language="pt"),
        row(2, translation_group_id=3, language="en"),
        row(3, translation_group_id=3),
        row(4, translation_group_id=4, language="fr"),
    )
    assert pt.translations() == en.translations() == none.translations() == {"pt": pt, "en": en}
    assert other.translations() == {"fr": other}
    alone, without = items(row(5, language="de"), row(6))
    assert alone.translations() == {"de": alone}
    assert without.translations() == {}
