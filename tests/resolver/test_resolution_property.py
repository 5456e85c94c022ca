"""Items split over several Archives are resolved as if one Archive had all of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.archives import archive_of, close, import_records, make_app
from support.databases import new_database
from support.networks import (
    PREFERENCES,
    WHOLE,
    Archive,
    as_read,
    find_urls,
    make_records,
    make_wanted,
    memory_archives,
    on_the_wire,
    resolve,
    service_of,
    split,
    state_everything,
    whole_archive,
    without_address,
)
from support.stores import USERS, Json, MemoryCatalogue

from flask_ibi_archive.archive.archive import Archive as EmbeddedArchive
from flask_ibi_archive.archive.items.read import export_records
from flask_ibi_archive.archive.service.local_resolution import resolve_locally
from flask_ibi_archive.core.protocol.catalogue_items import Scope
from flask_ibi_archive.core.protocol.languages import parse_accept_language
from flask_ibi_archive.core.records.record import ItemView, format_record
from flask_ibi_archive.core.resolution.answer import ArchiveSource, Question
from flask_ibi_archive.core.resolution.outcome import Alert, AlertKind, Redirect

Archives = Sequence[tuple[ArchiveSource, Archive]]


def check(
    whole: list[Json], groups: Sequence[Archives], random_: random.Random, count: int, user: str
) -> int:
    """Compare the targets of persistent URLs; return how many have a target."""
    world = MemoryCatalogue(whole)
    led = 0
    for _ in range(count):
        wanted = make_wanted(random_, whole)
        ranges = parse_accept_language(random_.choice(PREFERENCES))
        expected = find_urls(world, wanted, ranges, user)
        led += expected != {None}
        item = world.find(wanted.ibi.text, Scope())
        is_removed = item is not None and item.state == "Deleted"
        for archives in groups:
            found = resolve(archives, wanted, ranges, random_)
            assert found.url in expected, (wanted, ranges, found)
            if isinstance(found.outcome, Alert):
                assert found.outcome.kind.status == (410 if is_removed else 404), (wanted, found)
            elif wanted.requires_original:
                assert found.outcome.state == "Original"
    return led


@pytest.mark.rule("R61-06", "R61-07", "R61-08", "R62-09", "R62-12")
@pytest.mark.parametrize(
    "seeds", [range(12), pytest.param(range(12, 400), marks=pytest.mark.slow)], ids=str
)
def test_several_archives_resolve_like_one_with_all_items(seeds: range) -> None:
    led = 0
    for number in seeds:
        random_ = random.Random(number)
        user = random_.choice(USERS)
        whole = state_everything(make_records(number, random_.choice((6, 9, 12))))
        alone = [whole_archive(whole, random_.random() < 0.7, user)]
        several = memory_archives(split(whole, random_), random_, user)
        led += check(whole, (alone, several), random_, 6, user)
    assert led > len(seeds)


@pytest.mark.slow
def test_a_silent_archive_never_changes_where_a_reader_is_led() -> None:
    led = 0
    for number in range(60):
        random_ = random.Random(number)
        whole = state_everything(make_records(number, random_.choice((6, 9, 12))))
        archives = memory_archives(split(whole, random_), random_)
        silent, _ = archives.pop(random_.randrange(len(archives)))
        world = MemoryCatalogue(whole)
        for _ in range(6):
            wanted = make_wanted(random_, whole)
            ranges = parse_accept_language(random_.choice(PREFERENCES))
            found = resolve(archives, wanted, ranges, random_, [silent])
            if isinstance(found.outcome, Alert):
                assert found.outcome.kind is AlertKind.SILENT, (wanted, found)
            else:
                led += 1
                assert found.url in find_urls(world, wanted, ranges), (wanted, ranges, found)
    assert led > 20


@pytest.mark.rule("R62-12")
@pytest.mark.slow
def test_real_archives_resolve_like_one_with_all_items(tmp_path: Path) -> None:
    random_ = random.Random(8)
    user = USERS[0]
    with ExitStack() as stack:

        def make(number: int, records: list[Json], **config: bool) -> EmbeddedArchive:
            folder = tmp_path / str(number)
            folder.mkdir()
            app = make_app(
                stack.enter_context(new_database("sqlite", folder, ready=True)),
                folder,
                IBI_ARCHIVE_ADDRESS=WHOLE if number == 9 else f"archive{number}.example",
                IBI_ARCHIVE_SERVICE_IBI=service_of(number),
                **config,
            )
            stack.callback(close, app)
            archive_of(app).init()
            assert import_records(archive_of(app), records).added == len(records)
            return archive_of(app)

        def asked(archive: EmbeddedArchive) -> tuple[ArchiveSource, Archive]:
            def answer(question: Question) -> dict[str, tuple[str, ...]]:
                return as_read(archive.list_urls(on_the_wire(question, user)))

            return ArchiveSource(
                archive.served().service_ibi, archive.config.archive_address
            ), answer

        alone = make(9, make_records(2, 60))
        exported = export_records(alone.database, alone.served().id, alone.files_folder)
        whole = state_everything([format_record(record) for record in exported])
        network = split(whole, random_)
        several = [
            make(
                number,
                part,
                IBI_FOLLOW_EDITIONS=network.follows[number],
                IBI_FILTER_URL_LIST=number != 1,
            )
            for number, part in enumerate(network.parts)
        ]
        groups = ([asked(alone)], [asked(archive) for archive in several])
        assert check(whole, groups, random_, 70, user) > 10
        world, led = MemoryCatalogue(whole), 0
        for _ in range(70):
            wanted = make_wanted(random_, whole)
            ranges = parse_accept_language(random_.choice(PREFERENCES))
            expected = find_urls(world, wanted, ranges, user)
            for archive in (alone, *several):
                outcome = resolve_locally(archive, wanted, ranges, (user,))
                if isinstance(outcome, Redirect):
                    led += 1
                    assert without_address(outcome.url) in expected, (wanted, ranges, outcome)
                else:
                    is_final = isinstance(outcome, Alert | ItemView)
                    assert expected == {None} or not is_final, (wanted, ranges, outcome)
        assert led > 10
