"""Who may see the files and the description of an item, and what the pages say about the item."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from functools import partial
from typing import Any

from support.archives import SERVICE
from support.stores import MemoryCatalogue, make_facts
from support.web import rep

from flask_ibi_archive.archive.items.read import view_host_item
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.messages import UrlRequest
from flask_ibi_archive.core.protocol.relations import Relation, Step, StepKind
from flask_ibi_archive.core.protocol.url_list import answer_url_request, find_metadata_url
from flask_ibi_archive.core.records.record import (
    AccessRule,
    ItemView,
    Record,
    RelatedItem,
    Tombstone,
)

TODAY, TOMORROW = date(2027, 2, 28), date(2027, 3, 1)
ONE, TWO = "150.163.0.0/16", "2001:db8::/32"
INSIDE, OUTSIDE, UNKNOWN = "150.163.2.175", "192.0.2.1", "0.0.0.0"
A, B, C = rep(1), rep(2), rep(3)


def view(**fields: Any) -> ItemView:
    return ItemView(Record(rep=A, **fields), False, TODAY)


OPEN, METADATA, NONE = None, AccessRule((ONE, TWO)), AccessRule((ONE, TWO), "none")


def test_the_networks_and_the_embargo_decide_who_may_read_and_see_an_item() -> None:
    for rule, embargo, user, expected in [
        (OPEN, TODAY, OUTSIDE, (True, True, True)),
        (OPEN, TOMORROW, OUTSIDE, (True, False, True)),
        (METADATA, None, INSIDE, (True, True, True)),
        # an address may have come through a socket for both kinds
        (METADATA, None, f"::ffff:{INSIDE}", (True, True, True)),
        (METADATA, None, "2001:db8::1", (True, True, True)),
        (METADATA, None, OUTSIDE, (False, False, True)),
        # no network lifts an embargo
        (METADATA, TOMORROW, INSIDE, (True, False, True)),
        (NONE, None, OUTSIDE, (False, False, False)),
        (NONE, None, UNKNOWN, (False, False, False)),
        (NONE, TOMORROW, INSIDE, (True, False, False)),
        (AccessRule(()), None, INSIDE, (False, False, True)),
    ]:
        item = view(access=rule, embargo=embargo)
        may_see = not item.is_hidden or item.allows(user)
        assert (item.is_inside(user), item.allows(user), may_see) == expected
        assert item.is_hidden == (rule is NONE)
        assert item.embargo == (TOMORROW if embargo == TOMORROW else None)


# --- the URL of the metadata

CLOSED = {"access": {"networks": [ONE]}}
HIDDEN = {"access": {"networks": [ONE], "others": "none"}}
FAR = "https://a.example"
MOMENT, HERE = "2026-01-02T03:04:05Z", "http://a.example"
ITEM, PAGE = f"{HERE}/col/{A}", f"{HERE}/col/{B}/"
OWN: dict[str, Any] = {"rep": A, "metadata": {"dc": {"title": ["Snow"]}}}
MARC = {"formats": {"marc": f"{FAR}/marc"}}
LINKED: dict[str, Any] = {"rep": A, "metadata": {"url": f"{FAR}/m", **MARC}}
BY_ITEM: dict[str, Any] = {"rep": A, "metadata": {"ibi": B}}
DESCRIPTION: dict[str, Any] = {"rep": B, "content_type": "Metadata", **MARC}


def test_the_url_of_the_metadata_is_the_one_in_the_complete_url_list_of_the_user() -> None:
    for records, format, expected in [
        ([{"rep": A}], None, (None, None, None)),
        ([OWN], None, (f"{ITEM}/metadata",) * 3),
        ([OWN], "oai_dc", (f"{ITEM}/metadata?choice=oai_dc",) * 3),
        # the rule of the item itself does not close its metadata
        ([{**LINKED, **CLOSED}], "marc", (f"{FAR}/marc",) * 3),
        ([BY_ITEM, DESCRIPTION], "marc", (f"{FAR}/marc",) * 3),
        ([BY_ITEM, {**DESCRIPTION, **HIDDEN}], None, (PAGE, None, PAGE)),
    ]:
        # what resolvers may ask for does not limit the pages
        facts = make_facts("a.example", SERVICE, (".lastedition",), filter_url_list=True)
        catalogue: Any = MemoryCatalogue({"timestamp": MOMENT, **record} for record in records)
        ibi, step = parse_identifier(A), Step(StepKind.METADATA, format)
        find = partial(find_metadata_url, catalogue, facts, ibi)
        assert (find(INSIDE, step), find(OUTSIDE, step), find(OUTSIDE, step, True)) == expected
        whole = replace(facts, relations=None, filter_url_list=False)
        for user, url in zip((INSIDE, OUTSIDE), expected, strict=False):
            listed = answer_url_request(catalogue, UrlRequest(ibi, (user,)), whole, lambda item: "")
            assert dict(listed).get(f"url{Relation((step,)).name}") == url


def test_a_list_without_checks_of_access_is_that_of_a_user_in_the_networks_of_all_items() -> None:
    last, translation = rep(4), rep(5)
    records: list[dict[str, Any]] = [
        {**BY_ITEM, **HIDDEN, "language": "en", "next_edition": last,
         "translations": {"pt": translation}},
        {**DESCRIPTION, **HIDDEN},
        {"rep": last, "files": [{"path": "a.pdf"}], **HIDDEN},
        {**OWN, "rep": translation, "language": "pt", **CLOSED},
    ]  # fmt: skip
    catalogue: Any = MemoryCatalogue({"timestamp": MOMENT, **record} for record in records)
    checked = make_facts("a.example", SERVICE, None, filter_url_list=False)

    def list_urls(user: str, checks_access: bool) -> dict[str, Any]:
        facts = replace(checked, checks_access=checks_access)
        request = UrlRequest(parse_identifier(A), (user,))
        return dict(answer_url_request(catalogue, request, facts, lambda item: ""))

    inside = list_urls(INSIDE, True)
    assert {"url", "url.lastedition", "url.metadata", "url.translation(pt)"} <= inside.keys()
    assert list_urls(OUTSIDE, False) == inside != list_urls(OUTSIDE, True)


EDITION, SUCCESSOR = RelatedItem("later_edition", B), RelatedItem("successor", C)
ENGLISH, PORTUGUESE = (
    RelatedItem("translation", ibi, language=language) for ibi, language in ((B, "en"), (C, "pt"))
)


def test_the_related_items_of_a_host_are_the_edition_the_translations_and_the_successor() -> None:
    for fields, related in [
        ({}, ()),
        ({"next_edition": B}, (EDITION,)),
        ({"translations": {"en": B, "pt": C}}, (ENGLISH, PORTUGUESE)),
        ({"tombstone": Tombstone("lost")}, ()),
        ({"tombstone": Tombstone("merged", successor=C)}, (SUCCESSOR,)),
        (
            {
                "translations": {"pt": C},
                "next_edition": B,
                "tombstone": Tombstone("merged", successor=C),
            },
            (EDITION, PORTUGUESE, SUCCESSOR),
        ),
    ]:
        assert view_host_item(Record(rep=A, **fields), None, TODAY).related == related
