"""The targets of relations, with a test for each rule of the specification.

Each test has as few items as possible.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from support.stores import MemoryCatalogue, make_facts, moment_of, rep_of
from support.vectors import load

from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.messages import UrlRequest
from flask_ibi_archive.core.protocol.relations import parse_verb_list
from flask_ibi_archive.core.protocol.url_list import answer_url_request

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
NAMES = {
    **{"X": X, "Y": Y, "Z": Z, "W": W, "M": M, "N": N, "FAR": FAR, "R8": rep_of(8)},
    **{f"T{number}": moment_of(number) for number in range(10)},
}


def fill_in(value: Any) -> Any:
    """Return a value of the vectors with identifiers and times instead of their short names."""
    if isinstance(value, list):
        return [fill_in(one) for one in value]
    if isinstance(value, dict):
        filled = {name: fill_in(one) for name, one in value.items()}
        return item(**filled) if "rep" in filled else filled
    if not isinstance(value, str):
        return value
    return NAMES.get(value) or re.sub("<(.+?)>", lambda found: NAMES[found[1]], value)


VECTORS = {name: fill_in(table) for name, table in load("core/relation_targets.json").items()}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case["what"], marks=pytest.mark.rule(*case.get("rules", [])))
        for case in VECTORS["pairs"]
    ],
)
def test_each_case_has_these_pairs(case: dict[str, Any]) -> None:
    pairs = whole(case["records"], **case.get("ask", {}))
    found = {name: pairs.get(name) for name in case["expect"]}
    assert {
        name: [*value] if isinstance(value, tuple) else value for name, value in found.items()
    } == case["expect"]


@pytest.mark.rule("R61-04", "R61-05", "R61-07", "R61-08", "R61-14", "R72-18", "R72-20")
@pytest.mark.parametrize(("sentence", "records", "ibi", "prefix", "expected"), VECTORS["targets"])
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


def test_the_url_of_the_service_item_is_the_address_of_the_service() -> None:
    world = MemoryCatalogue([])
    world.add_service(Z, moment_of(1))
    request = UrlRequest(parse_identifier(Z), (OUTSIDE,))
    facts = make_facts("archive.example", Z, None)
    pairs = dict(answer_url_request(world, request, facts, lambda item: "1234567890-0"))
    assert pairs["url"] == f"{BASE}/{Z}"


# --- access --------------------------------------------------------------------------------------


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
