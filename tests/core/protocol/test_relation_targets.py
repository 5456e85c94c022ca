"""The targets of relations, with a test for each rule of the specification.

Each test has as few items as possible.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.cases import for_each
from support.stores import MemoryCatalogue, filter_url_list, make_facts, moment_of, rep_of
from support.vectors import load

from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.messages import UrlRequest
from flask_ibi_archive.core.protocol.relations import parse_verb_list
from flask_ibi_archive.core.protocol.url_list import UrlPair, answer_url_request

X, Y, Z, W, M, N = (rep_of(number) for number in range(6))
FAR = rep_of(1, "elsewhere.org/there")
INSIDE, OUTSIDE = "10.1.2.3", "192.0.2.1"
BASE = "http://archive.example"
RULE = {"networks": ["10.0.0.0/8"]}
NONE = {**RULE, "others": "none"}


def item(rep: str, **fields: Any) -> dict[str, Any]:
    """Return the record of an item."""
    return {"rep": rep, "timestamp": moment_of(int(rep[-2:])), **fields}


def about(rep: str, **fields: Any) -> dict[str, Any]:
    """Return the record of an item that is metadata."""
    return item(rep, content_type="Metadata", **fields)


def whole(
    records: list[dict[str, Any]],
    ibi: str = X,
    *,
    user: str = INSIDE,
    path: str = "",
    verbs: str = "",
    relations: tuple[str, ...] | None = None,
    filtered: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """Return the URL list of an item; by default, the list is not filtered."""
    request = UrlRequest(parse_identifier(ibi), (user,), path, parse_verb_list(verbs))
    facts = make_facts(
        "archive.example", "a.b/c/2008/03.17.15.17", relations, filter_url_list=filtered, **options
    )
    pairs = answer_url_request(
        MemoryCatalogue(records), request, facts, lambda item: "1234567890-0"
    )
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def targets(pairs: dict[str, Any]) -> dict[str, str]:
    """Return the IBI of the target of each relation in a URL list; without an IBI, ``own``."""
    names = {name.partition(".")[1] + name.partition(".")[2] for name in pairs}
    relations = {
        name for name in names if name.startswith((".lastedition", ".translation", ".metadata"))
    }
    return {name: pairs["ibi" + name][1] if "ibi" + name in pairs else "own" for name in relations}


CHAIN = [item(X, next_edition=Y), item(Y, next_edition=Z), item(Z)]
PAIR = [item(X, language="en", translations={"pt": Y}), item(Y)]
OWN = {"url": "https://m.example/x", "formats": {"oai_dc": "https://m.example/x?oai_dc"}}
#: Metadata in two languages, as the Archive itself creates them.
DESCRIPTIONS = [
    about(M, language="en", translations={"pt": N}, metadata={"dc": {"title": ["Rain"]}}),
    about(N, language="pt", metadata={"dc": {"title": ["Chuva"]}}),
]
NAMES = {"X": X, "Y": Y, "Z": Z, "W": W, "M": M, "N": N, "FAR": FAR}


def fill_in(value: Any) -> Any:
    """Return a value of the vectors with identifiers instead of their short names."""
    if isinstance(value, list):
        return [fill_in(one) for one in value]
    if isinstance(value, dict):
        filled = {name: fill_in(one) for name, one in value.items()}
        return item(**filled) if "rep" in filled else filled
    return NAMES.get(value, value) if isinstance(value, str) else value


VECTORS = {name: fill_in(table) for name, table in load("core/relation_targets.json").items()}


@pytest.mark.rule("R61-04", "R61-05", "R61-07", "R61-08", "R61-14", "R72-18", "R72-20")
@for_each(("sentence", "records", "ibi", "prefix", "expected"), VECTORS["targets"])
def test_each_case_has_these_relation_targets(
    sentence: str, records: list[dict[str, Any]], ibi: str, prefix: str, expected: dict[str, str]
) -> None:
    found = targets(whole(records, ibi))
    assert {name: found[name] for name in found if name.startswith(prefix)} == expected, sentence


@pytest.mark.rule("R72-21")
@pytest.mark.parametrize(
    "records",
    [
        CHAIN[2:],
        PAIR,
        [item(X, metadata=OWN), item(Z)],
        [item(X, state="Copy", original_archive=FAR)],
    ],
)
def test_without_a_next_edition_the_last_edition_has_the_pairs_of_the_item(
    records: list[dict[str, Any]],
) -> None:
    pairs = whole(records, records[0]["rep"])
    for name, value in pairs.items():
        if ".lastedition" in name:
            assert value == pairs[name.replace(".lastedition", "")]
        elif name.partition(".")[0] in ("url", "state", "timestamp", "contenttype"):
            prefix, dot, rest = name.partition(".")
            assert pairs[prefix + ".lastedition" + dot + rest] == value


@pytest.mark.rule("R8-02")
def test_without_follow_editions_the_last_edition_is_unknown() -> None:
    pairs = whole(CHAIN, follow_editions=False)
    assert pairs["ibi.nextedition"] == ("rep", Y)
    assert not any(name.startswith(".lastedition") for name in targets(pairs))
    assert targets(whole(CHAIN, Z, follow_editions=False))[".lastedition"] == Z


@pytest.mark.rule("R72-08")
@pytest.mark.parametrize("state", ["Original", "Deleted"])
def test_a_deleted_next_edition_has_a_pair_too(state: str) -> None:
    pairs = whole([item(X, next_edition=Y), item(Y, ibip="8JMKD3MGP8W/34PGRBS", state=state)])
    assert pairs["ibi.nextedition"] == ("rep", Y, "ibip", "8JMKD3MGP8W/34PGRBS")


@pytest.mark.rule("R72-08")
def test_an_item_without_a_next_edition_has_no_pair_for_it() -> None:
    assert "ibi.nextedition" not in whole([item(X)])


def test_a_legacy_identifier_in_another_archive_is_listed_as_an_ibip() -> None:
    pairs = whole([item(X, next_edition="83LX3pFwXQZeBBx/hwiTk")])
    assert pairs["ibi.nextedition"] == ("ibip", "83LX3pFwXQZeBBx/hwiTk")


def test_an_unknown_item_and_a_stub_have_an_empty_list() -> None:
    assert whole([item(X, next_edition=Y)], Z) == whole([item(X, next_edition=Y)], Y) == {}


@pytest.mark.rule("R72-07")
def test_a_deleted_item_has_only_its_state_and_timestamp() -> None:
    for verbs in ["", "GetLastEdition", "GetFileList", "GetMetadata(oai_dc)"]:
        for filtered in [True, False]:
            pairs = whole(
                [item(X, state="Deleted", next_edition=Y, metadata=OWN), item(Y)],
                verbs=verbs,
                filtered=filtered,
            )
            assert pairs == {
                "archiveaddress": "archive.example",
                "ibi": ("rep", X),
                "ibi.archiveservice": ("rep", "a.b/c/2008/03.17.15.17"),
                "ibi.platformsoftware": (),
                "state": "Deleted",
                "timestamp": moment_of(0),
            }, (verbs, filtered)


def test_only_legacy_identifiers_are_case_sensitive() -> None:
    records = [item(X, ibip="8JMKD3MGP8W/34PGRBS", aliases=["aBZc/1", Y])]
    for ibi in (X.upper(), "8jmkd3mgp8w/34pgrbs", "aBZc/1", Y.title()):
        assert whole(records, ibi)["ibi"] == ("rep", X, "ibip", "8JMKD3MGP8W/34PGRBS")
    assert whole(records, "abZc/1") == {}


# --- state, timestamp, contenttype ---------------------------------------------------------------


@pytest.mark.rule("R72-13")
def test_each_relation_has_the_state_and_timestamp_of_its_target() -> None:
    pairs = whole(
        [
            item(X, metadata={"ibi": M}, next_edition=Y),
            about(M, state="Copy", original_archive=FAR),
            item(Y),
        ]
    )
    assert (pairs["state"], pairs["timestamp"]) == ("Original", moment_of(0))
    assert (pairs["state.metadata"], pairs["timestamp.metadata"]) == ("Copy", moment_of(4))
    assert pairs["timestamp.lastedition"] == moment_of(1)
    assert (pairs["contenttype"], pairs["contenttype.metadata"]) == ("Data", "Metadata")


@pytest.mark.rule("R72-11")
@pytest.mark.parametrize("own", [None, moment_of(9)])
def test_metadata_that_are_not_an_item_have_the_state_and_timestamp_of_the_item(
    own: str | None,
) -> None:
    metadata = {**OWN, "timestamp": own} if own else OWN
    pairs = whole([item(X, state="Copy", original_archive=FAR, metadata=metadata)])
    assert pairs["state.metadata"] == "Copy"
    assert pairs["timestamp.metadata(oai_dc)"] == (own or moment_of(0))
    assert "ibi.metadata" not in pairs


@pytest.mark.rule("R72-11", "R72-12")
def test_an_item_in_another_archive_has_only_an_ibi_pair() -> None:
    pairs = whole([item(X, language="en", translations={"pt": FAR}, metadata={"ibi": rep_of(8)})])
    for relation in (".translation(pt)", ".metadata", ".metadata(oai_dc)"):
        assert "ibi" + relation in pairs
        assert not {kind + relation for kind in ("url", "state", "timestamp", "contenttype")} & set(
            pairs
        )


# --- addresses of files --------------------------------------------------------------------------

FILES = [
    {"path": "a b.txt"},
    {"path": "@relatorio.pdf"},
    {"path": "Relatório.pdf"},
    {"path": "x%20y"},
    {"path": "x y"},
]
HERE = f"{BASE}/col/{X}"


@pytest.mark.rule("R72-13", "R72-23")
def test_a_path_is_compared_decoded_once_and_then_decoded_twice() -> None:
    for path, url in VECTORS["paths"]:
        pairs = whole([item(X, files=FILES, metadata=OWN)], path=path)
        assert pairs.get("url") == url, path
        assert (
            ("state" in pairs)
            == ("contenttype" in pairs)
            == ("timestamp" in pairs)
            == (url is not None)
        ), path
        assert ("url.metadata" in pairs) == (path in ("", "/")), path


@pytest.mark.rule("R72-23")
def test_a_path_is_compared_with_the_files_of_each_target() -> None:
    pairs = whole(
        [item(X, next_edition=Y, files=[{"path": "a"}]), item(Y, files=[{"path": "b"}])], path="b"
    )
    assert pairs["url.lastedition"] == f"{BASE}/col/{Y}/doc/b"
    assert "url" not in pairs


@pytest.mark.rule("R72-22")
def test_the_url_leads_to_the_target_file_or_the_page_of_the_item() -> None:
    assert whole([item(X, files=FILES, target_file="x y")])["url"] == f"{HERE}/doc/x%20y"
    assert whole([item(X)])["url"] == f"{HERE}/"


def test_the_url_of_a_file_on_another_server_is_unchanged() -> None:
    url = "https://f.example/Relat%f3rio%20a+b.pdf?x=%2F"
    assert whole([item(X, files=[{"path": "a", "url": url}])])["url"] == url


@pytest.mark.rule("R61-15", "R72-24", "R72-25")
@pytest.mark.parametrize("path", ["", "a", "missing"])
def test_the_file_list_has_precedence_over_the_path(path: str) -> None:
    records = [
        item(X, files=[{"path": "a"}], next_edition=Y, metadata={"ibi": M}),
        item(Y, list_files=False, metadata=OWN),
        about(M, formats={"oai_dc": "https://m.example/o"}),
    ]
    pairs = whole(records, path=path, verbs="GetFileList")
    assert pairs["url"] == f"{HERE}/files"
    assert pairs["url.lastedition"] == f"{BASE}/col/{Y}/files"
    assert pairs["url.metadata"] == f"{BASE}/col/{M}/files"
    assert "url.metadata(oai_dc)" not in pairs
    assert "url.lastedition.metadata" not in pairs


@pytest.mark.rule("R72-25")
@pytest.mark.parametrize("verbs", ["GetLastEdition", "GetLastEdition GetMetadata"])
def test_other_verbs_do_not_change_the_meaning_of_the_path(verbs: str) -> None:
    pairs = whole([item(X, files=[{"path": "a"}])], path="b", verbs=verbs)
    assert "url.lastedition" not in pairs
    assert pairs["ibi.lastedition"] == ("rep", X)


def test_a_url_contains_the_repository_name_or_else_the_ibip() -> None:
    both = item(X, ibip="8JMKD3MGP8W/34PGRBS")
    assert whole([both])["url"] == f"{HERE}/"
    alone = {"ibip": "8JMKD3MGP8W/34PGRBS", "timestamp": moment_of(1)}
    assert whole([alone], "8JMKD3MGP8W/34PGRBS")["url"] == f"{BASE}/col/8JMKD3MGP8W/34PGRBS/"


def test_metadata_in_this_archive_have_a_url_in_free_form_and_in_oai_dc() -> None:
    pairs = whole([item(X, metadata={"dc": {"title": ["x"]}})])
    assert pairs["url.metadata"] == f"{HERE}/metadata"
    assert pairs["url.metadata(oai_dc)"] == f"{HERE}/metadata?choice=oai_dc"


def test_the_formats_of_a_metadata_item_are_written_at_the_page_of_the_described_item() -> None:
    pairs = whole([item(X, metadata={"ibi": M}), *DESCRIPTIONS])
    page = f"{HERE}/metadata?choice=oai_dc"
    for relation in (".metadata(oai_dc)", ".metadata(oai_dc).translation(en)"):
        assert pairs["url" + relation] == page
        assert (pairs["state" + relation], pairs["timestamp" + relation]) == (
            "Original",
            moment_of(4),
        )
        assert pairs["contenttype" + relation] == "Metadata"
    translated = f"{BASE}/col/{N}/metadata?choice=oai_dc"
    assert pairs["url.metadata(oai_dc).translation(pt)"] == translated
    itself = whole(DESCRIPTIONS, M)
    assert itself["url.metadata(oai_dc)"] == f"{BASE}/col/{M}/metadata?choice=oai_dc"
    assert itself["url.metadata(oai_dc).translation(pt)"] == translated
    for path, verbs in (("a", ""), ("", "GetFileList")):
        pairs = whole([item(X, metadata={"ibi": M}), *DESCRIPTIONS], path=path, verbs=verbs)
        assert "url.metadata(oai_dc)" not in pairs


def test_a_rule_of_a_metadata_item_closes_its_files_and_not_what_the_archive_writes() -> None:
    records = [item(X, metadata={"ibi": M}), {**DESCRIPTIONS[0], "access": RULE}, DESCRIPTIONS[1]]
    pairs = whole(records, user=OUTSIDE)
    assert pairs["url.metadata(oai_dc)"] == f"{HERE}/metadata?choice=oai_dc"
    assert pairs["url.metadata"] == f"{BASE}/col/{M}/metadata"


def test_the_url_of_the_service_item_is_the_address_of_the_service() -> None:
    world = MemoryCatalogue([])
    world.add_service(Z, moment_of(1))
    request = UrlRequest(parse_identifier(Z), (OUTSIDE,))
    facts = make_facts("archive.example", Z, None)
    pairs = dict(answer_url_request(world, request, facts, lambda item: "1234567890-0"))
    assert pairs["url"] == f"{BASE}/{Z}"


# --- access --------------------------------------------------------------------------------------

META = about(M, files=[{"path": "m.html"}])


@pytest.mark.rule("R72-27")
def test_a_user_outside_the_networks_gets_the_metadata_or_nothing() -> None:
    for records, url in VECTORS["outside the networks"]:
        for path, verbs in [("", ""), ("a", ""), ("", "GetFileList")]:
            records = [{**records[0], "files": [{"path": "a"}]}, *records[1:]]
            inside = whole(records, user=INSIDE, path=path, verbs=verbs)
            outside = whole(records, user=OUTSIDE, path=path, verbs=verbs)
            assert inside["url"].startswith(HERE), (records, path, verbs)
            assert inside["ibi"] == outside["ibi"], (records, path, verbs)
            for relation in ("", ".lastedition"):
                found = tuple(
                    outside.get(kind + relation)
                    for kind in ("url", "contenttype", "state", "timestamp")
                )
                expected = (url, "Metadata", "Original", moment_of(0)) if url else (None,) * 4
                assert found == expected, (records, path, verbs)


def test_a_missing_file_has_no_url_outside_the_networks() -> None:
    records = [item(X, access=RULE, metadata=OWN, files=[{"path": "a"}])]
    assert "url" not in whole(records, user=OUTSIDE, path="missing")


def test_the_access_rule_of_an_item_does_not_restrict_its_metadata() -> None:
    for metadata in (OWN, {"ibi": M}):
        records = [item(X, access=NONE, metadata=metadata), META]
        pairs = whole(records, user=OUTSIDE)
        assert "url" not in pairs
        assert pairs["url.metadata"] == whole(records, user=INSIDE)["url.metadata"]


def test_the_access_rule_of_an_item_may_hide_its_dublin_core() -> None:
    described = {"metadata": {"dc": {"title": ["x"]}}, "files": [{"path": "a"}]}
    for rule, user, is_shown in (
        (NONE, OUTSIDE, False),
        (NONE, INSIDE, True),
        (RULE, OUTSIDE, True),
    ):
        records = [
            item(X, next_edition=Y, access=rule, **described),
            item(Y, access=rule, **described),
            about(M, access=rule, metadata=described["metadata"]),
        ]
        pairs = whole(records, user=user)
        for relation in (".metadata", ".metadata(oai_dc)", ".lastedition.metadata"):
            assert ("url" + relation in pairs) == is_shown
            assert ("contenttype" + relation in pairs) == is_shown
        assert ("url.metadata" in whole(records, M, user=user)) == is_shown


def test_metadata_that_are_an_item_can_be_restricted_in_every_form() -> None:
    meta = about(M, access=RULE, formats={"oai_dc": "https://m.example/o"}, metadata=OWN)
    pairs = whole([item(X, metadata={"ibi": M}), meta], user=OUTSIDE)
    assert pairs["url.metadata"] == pairs["url.metadata(oai_dc)"] == OWN["url"]
    assert pairs["ibi.metadata(oai_dc)"] == ("rep", M)
    assert pairs["url"] == f"{HERE}/"


@for_each(
    ("networks", "users", "is_open"),
    [
        (["10.0.0.0/8"], ("10.255.255.255", OUTSIDE), True),
        (["10.0.0.0/8"], (OUTSIDE, "10.1.2.3"), False),
        (["192.0.2.0/31", "10.0.0.0/8"], ("192.0.2.1",), True),
        (["2001:db8::/32"], ("2001:db8::1",), True),
        (["2001:db8::/32"], ("10.1.2.3",), False),
        (["0.0.0.0/0"], ("2001:db8::1",), False),
        (["::/0"], ("2001:db8::1",), True),
    ],
)
def test_the_first_address_is_that_of_the_user(
    networks: list[str], users: tuple[str, ...], is_open: bool
) -> None:
    request = UrlRequest(parse_identifier(X), users)
    world = MemoryCatalogue([item(X, access={"networks": networks})])
    facts = make_facts("archive.example", Z, None)
    pairs = dict(answer_url_request(world, request, facts, lambda item: "1234567890-0"))
    assert ("url" in pairs) is is_open


# --- the relations that an Archive answers -------------------------------------------------------

RICH = [
    item(X, language="en", translations={"pt": Y}, metadata={"ibi": M}, next_edition=Z),
    item(Y),
    item(Z, metadata=OWN),
    about(
        M, language="en", formats={"oai_dc": "https://m.example/o", "marc": "https://m.example/m"}
    ),
]


@pytest.mark.rule("R72-19")
def test_an_archive_answers_only_the_relations_of_its_setting() -> None:
    for relations, names in VECTORS["settings"]:
        expected = set(names)
        pairs = whole(RICH, relations=tuple(relations))
        assert {name[3:] for name in pairs if name.startswith("url")} - {"key"} == expected, (
            relations
        )
        assert set(targets(pairs)) == expected - {""}, relations
        assert pairs["ibi"] == ("rep", X), "the item, whatever the relations are"
        assert pairs["ibi.nextedition"] == ("rep", Z), relations
        assert "urlkey" in pairs, relations


# --- filtering -----------------------------------------------------------------------------------

ALWAYS = {"archiveaddress", "ibi", "ibi.archiveservice", "ibi.platformsoftware"}


@pytest.mark.rule("R72-19", "R72-29")
def test_filtering_keeps_the_pairs_that_the_resolver_needs() -> None:
    for records, verbs, expected in VECTORS["filtered"]:
        pairs = whole(RICH if records == "rich" else records, verbs=verbs, filtered=True)
        assert set(pairs) == {*ALWAYS, *expected}, (records, verbs)


def test_filtering_changes_no_values_and_no_empty_list() -> None:
    unfiltered: list[UrlPair] = list(whole(RICH, verbs="GetLastEdition").items())
    filtered = dict(filter_url_list(unfiltered, parse_verb_list("GetLastEdition")))
    assert filtered.items() <= dict(unfiltered).items()
    assert filtered == whole(RICH, verbs="GetLastEdition", filtered=True)
    assert filter_url_list([], parse_verb_list("GetLastEdition")) == []
