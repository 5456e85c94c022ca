"""A host with its own catalogue: refused operations, wrong records, relations, accesses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, abort
from sqlalchemy import NullPool, create_engine, text
from support.archives import FAR_SERVICE
from support.commands import command
from support.shelf import Shelf

from flask_ibi_archive import CatalogueRecord, IBIArchive, MetadataItem, RecordCatalogue
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.checking import check_archive
from flask_ibi_archive.core.identifiers.foreign import parse_foreign
from flask_ibi_archive.errors import ConfigError, NotReady, StorageError
from flask_ibi_archive.testing import Reader

CHANGED = datetime(2026, 2, 1, 8, 30, tzinfo=timezone.utc)
A, B, C, ELSEWHERE = (f"a.br/{letter}/2001/01.01.00.00" for letter in "abcd")
SHORT = "8JMKD3MGP8W/35MME4E"


def a_record(rep: str | None = A, **fields: Any) -> CatalogueRecord:
    record = CatalogueRecord(rep=rep, timestamp=CHANGED, title="Snow", language="en")
    record.update(fields)  # type: ignore[typeddict-item]
    return record


Host = Callable[..., Reader]


@pytest.fixture
def host(ibi_settings: dict[str, Any], tmp_path: Path) -> Iterator[Host]:
    """A function that returns a reader of an app with a catalogue of some records."""
    made: list[Archive] = []

    def make(*records: CatalogueRecord, kind: type[Shelf] = Shelf) -> Reader:
        app = Flask("host", instance_path=str(tmp_path / "instance"))
        # requests to the Archive's own address and to the resolver are refused at once
        nobody = "127.0.0.1:1"
        app.config.from_mapping(
            ibi_settings, IBI_ARCHIVE_ADDRESS=nobody, IBI_RESOLVER_URL=f"http://{nobody}"
        )
        IBIArchive(app, catalogue=kind(*records))
        reader = Reader(app)
        reader.archive.init()
        made.append(reader.archive)
        return reader

    yield make
    for archive in made:
        archive.database.close()


def test_operations_on_items_are_refused_in_one_line(host: Host) -> None:
    archive = host(a_record()).archive
    operations: list[Callable[[], object]] = [
        lambda: archive.deposit(title="x"),
        lambda: archive.new_edition(A, title="x"),
        lambda: archive.edit(A, title="x"),
        lambda: archive.delete(A, "x"),
        lambda: archive.make_copy(A),
    ]
    for operation in operations:
        with pytest.raises(StorageError, match=r"tables of the repository \(Shelf\); change them"):
            operation()


WRONG: dict[str, tuple[Any, str]] = {
    "field": (a_record(titel="x"), "titel: this field is unknown; did you mean title?"),
    "language": (a_record(language="English"), "language: 'English'"),
    "no timestamp": ({"rep": A}, "timestamp: the record needs the time of the last change"),
    "naive timestamp": (
        a_record(timestamp=datetime(2026, 1, 1)),
        "has no time zone; add tzinfo=timezone.utc",
    ),
    "stream": (a_record(files=[("a", BytesIO())]), "is not a path"),
    "edition": (a_record(previous_edition=B), "next_edition"),
    "translation": (a_record(translation_of=B), "the field translations"),
    "no mapping": (A, "not a CatalogueRecord or None"),
    "other item": (a_record(B), f"the record has the identifiers {B}"),
}


class Careless(Shelf):
    """A catalogue that returns the same record for all identifiers."""

    def record(self, ibi: str) -> CatalogueRecord | None:
        return self.shelf[0]


def test_a_wrong_record_is_an_error_of_the_catalogue(
    host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    catalogue = Careless()
    reader = host(kind=lambda: catalogue)  # type: ignore[arg-type]
    for given, message in WRONG.values():
        catalogue.shelf = [given]
        with pytest.raises(NotReady) as error:
            reader.archive.get(A)
        assert message in str(error.value)
        assert str(error.value).startswith(f"Careless returns a wrong record ({A}: ")
        assert reader.open(f"/col/{A}/").status_code == 503
        with pytest.raises(AssertionError, match="alert"):
            reader.request_urls(A)
        assert message in caplog.text


def test_a_catalogue_must_be_an_object(ibi_settings: dict[str, Any]) -> None:
    app = Flask("host")
    app.config.from_mapping(ibi_settings)
    with pytest.raises(ConfigError, match="an object of a subclass of RecordCatalogue"):
        IBIArchive(app, catalogue=Shelf)  # type: ignore[arg-type]


class Raising(Shelf):
    """A catalogue with an error in its code, a missing table, and an item for some users only."""

    def record(self, ibi: str) -> CatalogueRecord | None:
        if ibi == B:
            abort(403)
        if ibi == C:
            with create_engine("sqlite://", poolclass=NullPool).connect() as connection:
                connection.execute(text("SELECT * FROM documents"))
        return {"rep": ibi, "title": {}["title"]}

    def records(self) -> Iterator[CatalogueRecord]:
        yield a_record()
        raise ValueError("two\nlines")


def test_an_error_in_the_code_of_a_catalogue_is_one_line_that_names_the_place(host: Host) -> None:
    reader = host(kind=Raising)
    response = reader.open(f"/col/{A}/")
    assert (response.status_code, "KeyError" in response.text) == (503, False)
    assert reader.open(f"/col/{B}/").status_code == 403
    response = reader.open(f"/col/{C}/")
    assert (response.status_code, "no such table" in response.text) == (503, False)
    with pytest.raises(NotReady, match="Raising can't read the items"):
        reader.archive.get(C)
    for arguments, error in (
        (["show", A], "KeyError: 'title', .*test_own_tables"),
        (["show", B], "Forbidden: 403 Forbidden.*exceptions"),
        (["list"], "ValueError: two lines, .*test_own_tables"),
    ):
        outcome = command(reader.app, *arguments)
        assert (outcome.status, outcome.err.count("\n")) == (1, 1)
        assert re.search(rf"Raising fails .{error}.py:\d+", outcome.err)


class Unreadable(Shelf):
    """A catalogue that lists its items, but whose method record() fails."""

    def record(self, ibi: str) -> CatalogueRecord | None:
        found = super().record(ibi)
        return found and {"rep": ibi, "title": {}["title"]}


class Unlisted(Shelf):
    """A catalogue that lists an item that it does not find."""

    def record(self, ibi: str) -> CatalogueRecord | None:
        return None if ibi == B else super().record(ibi)


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        (Raising, "Raising fails .KeyError: 'title', .*test_own_tables.py"),
        (Unreadable, "Unreadable fails .KeyError: 'title', .*test_own_tables.py"),
        (Unlisted, "but record\\('a.br/b/2001/01.01.00.00'\\) returns None"),
    ],
)
def test_the_check_has_one_line_about_a_wrong_catalogue(
    host: Host, kind: type[Shelf], error: str
) -> None:
    """Even if the items can be listed, and if resolvers would ask in vain."""
    reader = host(a_record(), a_record(B), kind=kind)
    with reader.app.app_context():
        failed = [str(one.text) for one in check_archive(reader.archive) if not one.ok]
    about = [text for text in failed if kind.__name__ in text]
    assert len(about) == 1
    assert re.search(error, about[0])


def test_a_reserved_item_is_unknown(host: Host) -> None:
    reader = host(a_record(state="Reserved"))
    assert reader.request_urls(A) == {}
    assert reader.open(f"/col/{A}/").status_code == 404
    assert list(reader.archive.find()) == []


def test_relations_may_lead_to_items_of_other_archives(host: Host) -> None:
    reader = host(
        CatalogueRecord(
            rep=A,
            timestamp=CHANGED,
            language="en",
            next_edition=ELSEWHERE,
            translations={"pt": SHORT},
            metadata=MetadataItem(B),
        ),
        a_record(B, content_type="Metadata", formats={"marcxml": "https://example.org/b.xml"}),
    )
    pairs = reader.request_urls(A, "GetLastEdition")
    assert pairs["ibi.nextedition"] == ("rep", ELSEWHERE)
    assert "url.lastedition" not in pairs
    everything = reader.request_urls(A, "GetTranslation(pt)")
    assert everything["ibi.translation(pt)"] == ("ibip", SHORT)
    found = reader.request_urls(A, "GetMetadata(marcxml)")
    assert found["url.metadata(marcxml)"] == ("https://example.org/b.xml",)


def test_editions_in_a_circle_end(host: Host) -> None:
    reader = host(a_record(A, next_edition=B), a_record(B, next_edition=A))
    assert reader.request_urls(A, "GetLastEdition")["ibi.lastedition"] == ("rep", B)


def test_commands_cover_the_items_of_the_host_or_say_that_they_do_not(
    host: Host, tmp_path: Path
) -> None:
    path = tmp_path / "stored-17"
    path.write_text("content")
    reader = host(a_record(A, files=[("a.txt", path)]), a_record(B, title="Rain"))
    runs = partial(command, reader.app)
    assert runs("list", "--search", "rAI").out.splitlines()[1].split("\t")[0] == B
    assert "title Snow" in runs("show", A).out
    assert "urlkey" in runs("url-list", A).out
    assert json.loads(runs("stats", A, "--json").out)["downloads"] == 0
    exported = tmp_path / "items.jsonl"
    runs("export", str(exported), "--files", str(tmp_path / "files"))
    first, _ = map(json.loads, exported.read_text().splitlines())
    assert (tmp_path / first["files"][0]["source"]).read_text() == "content"
    for words in (["verify"], ["check-links"]):
        assert "the items and files are in the tables of the repository (Shelf): not" in (
            runs(*words).err
        )
    for words in (
        ["import", exported],
        ["renew-harvests"],
        ["offer", "--all", "--to", FAR_SERVICE],
    ):
        refused = runs(*words).error
        assert refused.startswith("the items of this Archive are in the tables of the repository")


def test_a_catalogue_that_cannot_list_its_items_says_so(host: Host) -> None:
    class Bare(Shelf):
        records = RecordCatalogue.records  # type: ignore[assignment]

    with pytest.raises(StorageError, match=r"Bare can't list its items.*records\(\)"):
        list(host(a_record(), kind=Bare).archive.find())


def test_a_catalogue_can_answer_with_one_statement(host: Host) -> None:
    calls = []

    class Quick(Shelf):
        def record(self, ibi: str) -> CatalogueRecord | None:
            raise AssertionError(ibi)

        def find(self, ibi: str, *rest: Any) -> Any:
            calls.append(ibi)
            return Shelf(*self.shelf).find(ibi, *rest)

    reader = host(a_record(A, next_edition=B), a_record(B), kind=Quick)
    reader.request_urls(A, "GetLastEdition")
    assert calls == [A]


class WithAliases(Shelf):
    """A catalogue that finds its items by identifiers of other systems."""

    def find_same_as(self, alias: str) -> str | None:
        return next((str(one["rep"]) for one in self.shelf if alias in one["same_as"]), None)


def test_the_host_answers_which_item_has_an_alias(host: Host) -> None:
    handle, doi = (parse_foreign(text) for text in ("hdl:20.500/1", "doi:10.5281/zenodo.12"))
    for kind, asked, expected in (
        (WithAliases, [handle, doi], (doi, A)),
        (WithAliases, [handle], None),
        (Shelf, [doi], None),
    ):
        archive = host(a_record(same_as=["doi:10.5281/zenodo.12"]), kind=kind).archive
        with archive.database.reading() as connection:
            assert archive.items.find_by_alias(connection, asked) == expected
