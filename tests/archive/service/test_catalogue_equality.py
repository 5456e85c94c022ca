"""The stored catalogue answers as a catalogue of the records in memory, also after updates."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from itertools import product
from typing import Any

import pytest
from flask import Flask
from support.archives import SERVICE, archive_of, import_records, open_app
from support.stores import (
    RELATIONS,
    MemoryCatalogue,
    StoreMaker,
    identifiers_of,
    make_facts,
    make_request,
    rep_of,
)

from flask_ibi_archive.archive.service.catalogue import StoredCatalogue
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.messages import UrlRequest
from flask_ibi_archive.core.protocol.relations import parse_verb_list
from flask_ibi_archive.core.protocol.url_list import UrlPair, answer_url_request

ADDRESS, KEY = "archive.example", "1234567890-0"
MAKER = StoreMaker(2014, 250)
#: Earlier records of some of the items.
EARLIER = StoreMaker(0, 60)


@pytest.fixture(scope="module")
def store(backend: str, tmp_path_factory: Any) -> Iterator[Flask]:
    """An app whose Archive has many items, some of which an import has updated."""
    folder = tmp_path_factory.mktemp("store")
    with open_app(backend, folder) as app:
        import_records(archive_of(app), EARLIER.records)
        result = import_records(
            archive_of(app), MAKER.records, on_conflict="update", take_back=True
        )
        assert result.updated == len(EARLIER.records)
        yield app


def sort_pairs(pairs: Collection[UrlPair]) -> list[UrlPair]:
    assert len({name for name, _ in pairs}) == len(pairs)
    return sorted(pairs)


@pytest.mark.postgresql
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("filtered", [True, False], ids=["filtered", "whole"])
def test_the_stored_catalogue_agrees_with_the_records(
    store: Flask, filtered: bool, seed: int
) -> None:
    archive = archive_of(store)
    memory = MemoryCatalogue(MAKER.records)
    random_ = random.Random(seed)
    with archive.database.reading() as connection:
        catalogue = StoredCatalogue(connection, archive.served().id, archive.today)
        for _ in range((150 if filtered else 50) if seed else (60 if filtered else 20)):
            record = random_.choice(MAKER.records)
            ibi = MAKER.in_any_case(random_.choice(identifiers_of(record)))
            request = make_request(random_, ibi)
            facts = make_facts(
                ADDRESS,
                SERVICE,
                random_.choice(RELATIONS),
                filter_url_list=filtered,
                follow_editions=random_.random() < 0.7,
            )
            stored = answer_url_request(catalogue, request, facts, lambda item: KEY)
            expected = answer_url_request(memory, request, facts, lambda item: KEY)
            assert sort_pairs(stored) == sort_pairs(expected), (request, facts)


def test_a_format_of_a_translated_description_does_not_replace_the_one_that_is_written(
    app: Flask,
) -> None:
    """Only the translation states oai_dc; the Archive writes oai_dc from the description itself."""
    report, about, translated = (rep_of(number) for number in range(3))
    stated = "https://a.example/oai_dc"
    records = [
        {"rep": report, "metadata": {"ibi": about}},
        {
            "rep": about,
            "content_type": "Metadata",
            "language": "en",
            "translations": {"pt": translated},
            "metadata": {"dc": {"title": ["Rain"]}},
        },
        {
            "rep": translated,
            "content_type": "Metadata",
            "language": "pt",
            "formats": {"oai_dc": stated},
        },
    ]
    archive = archive_of(app)
    import_records(archive, records)
    expected = {
        "GetMetadata(oai_dc)": f"http://{ADDRESS}/col/{report}/metadata?choice=oai_dc",
        "GetMetadata(oai_dc) GetTranslation(pt)": stated,
    }
    with archive.database.reading() as connection:
        stored = StoredCatalogue(connection, archive.served().id, archive.today)
        for catalogue, filtered in product((stored, MemoryCatalogue(records)), (True, False)):
            facts = make_facts(ADDRESS, SERVICE, None, filter_url_list=filtered)
            for verbs, url in expected.items():
                wanted = parse_verb_list(verbs)
                request = UrlRequest(parse_identifier(report), ("10.0.0.1",), "", wanted)
                pairs = dict(answer_url_request(catalogue, request, facts, lambda item: KEY))
                assert pairs.get(f"url{wanted.relation.name}") == url, (catalogue, filtered, verbs)
