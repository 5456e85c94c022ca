"""Answers of an Archive whose database contains other Archives too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from support.archives import SERVICE, archive_of, import_records
from support.stores import moment_of, rep_of

from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.messages import UrlRequest
from flask_ibi_archive.core.protocol.relations import parse_verb_list

OTHER = rep_of(9, "sid.inpe.br/other")
X, Y, Z, M = (rep_of(number) for number in range(4))


def ask(app: Flask, ibi: str, verbs: str = "", path: str = "") -> dict[str, Any]:
    request = UrlRequest(parse_identifier(ibi), ("192.0.2.1",), path, parse_verb_list(verbs))
    return dict(archive_of(app).list_urls(request))


@pytest.fixture
def apps(new_app: Callable[..., Flask]) -> tuple[Flask, Flask]:
    """Two apps with one database, each with its own Archive."""
    here = new_app(IBI_FILTER_URL_LIST=False)
    there = new_app(
        IBI_ARCHIVE_SERVICE_IBI=OTHER,
        IBI_ARCHIVE_ADDRESS="there.example",
        IBI_FILTER_URL_LIST=False,
    )
    archive_of(here).init()
    archive_of(there).init()
    return here, there


@pytest.mark.parametrize("way", ["here first", "there first", "transferred"])
def test_only_the_ibi_of_an_item_in_another_archive_is_returned(
    apps: tuple[Flask, Flask], way: str
) -> None:
    here, there = apps
    records: list[dict[str, Any]] = [
        {
            "rep": X,
            "language": "en",
            "next_edition": Y,
            "translations": {"pt": Z},
            "metadata": {"ibi": M},
        }
    ]
    others: list[dict[str, Any]] = [
        {"rep": Y},
        {"rep": Z, "metadata": {"url": "https://m.example/"}},
        {"rep": M, "content_type": "Metadata", "formats": {"marc": "https://m.example/marc"}},
    ]
    if way == "transferred":
        import_records(archive_of(here), [*records, *others])
        for rep in (Y, Z, M):
            archive_of(here).transfer(rep, OTHER)
    else:
        steps = [(here, records), (there, others)]
        for app, imported in steps if way == "here first" else reversed(steps):
            import_records(archive_of(app), imported)
    pairs = ask(here, X)
    assert pairs["ibi.nextedition"] == ("rep", Y)
    for relation, ibi in ((".translation(pt)", Z), (".metadata", M), (".metadata(oai_dc)", M)):
        assert pairs["ibi" + relation] == ("rep", ibi)
        assert "url" + relation not in pairs
        assert "state" + relation not in pairs
    assert not [name for name in pairs if name.startswith(("ibi.lastedition", "url.lastedition"))]
    assert {"ibi.metadata(marc)", "ibi.translation(pt).metadata"}.isdisjoint(pairs)
    assert ask(there, Z)["url.metadata"] == "https://m.example/"
    # a tombstone here, and relations there, if the item was transferred
    assert ask(here, Z).get("state") == ("Deleted" if way == "transferred" else None)
    assert ("ibi.translation(en)" in ask(there, Z)) is (way == "transferred")


@pytest.mark.rule("R3-01", "R3-03", "R3-08")
def test_each_archive_answers_for_its_own_items(apps: tuple[Flask, Flask]) -> None:
    here, there = apps
    import_records(archive_of(there), [{"rep": Y}])
    assert ask(here, Y) == ask(here, OTHER) == {}
    assert ask(there, Y)["archiveaddress"] == "there.example"
    # a Copy and its Original
    import_records(archive_of(here), [{"rep": X, "timestamp": moment_of(1)}])
    copy = {"state": "Copy", "original_archive": SERVICE, "timestamp": moment_of(2)}
    import_records(archive_of(there), [{"rep": X, **copy}])
    assert (ask(here, X)["state"], ask(there, X)["state"]) == ("Original", "Copy")
    assert ask(there, X)["timestamp"] == moment_of(2)
    assert ask(there, X)["url"] == f"http://there.example/col/{X}/"


def test_a_removed_copy_is_treated_as_an_item_of_another_archive(apps: tuple[Flask, Flask]) -> None:
    here, there = apps
    import_records(
        archive_of(here), [{"rep": Z, "language": "pt", "translations": {"en": X}}, {"rep": X}]
    )
    archive_of(here).make_copy(X, OTHER)
    archive_of(here).make_copy(Z, OTHER)
    assert "url.translation(pt)" in ask(there, X)
    archive_of(there).delete(Z, "too large")
    pairs = ask(there, X)
    assert pairs["ibi.translation(pt)"] == ("rep", Z)
    assert "url.translation(pt)" not in pairs
    # permanently deleted items are not in the answer
    archive_of(there).delete(X, "too large")
    archive_of(here).delete(Z, "wrong")
    assert not [name for name in ask(here, X) if "(pt)" in name]
