"""The command adopt: rows that are older than the identifiers get identifiers and items."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy import (
    CHAR,
    UUID,
    Dialect,
    Integer,
    TypeDecorator,
    func,
    insert,
    select,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from support.archives import paths_in_store
from support.commands import ROOT
from support.host_models import Host
from support.operations import dump

from flask_ibi_archive import IdentifiedItem, ItemRecord
from flask_ibi_archive.archive.hosts import adopting
from flask_ibi_archive.archive.hosts.comparing import Comparer
from flask_ibi_archive.errors import NotReady

PROGRAM = Path(__file__).with_name("adopting_process.py")


@pytest.fixture
def host(new_host: Callable[..., Host]) -> Host:
    """A host with a plain model."""
    return new_host()


def insert_rows(host: Host, *rows: dict[str, Any]) -> None:
    """Insert rows without identifiers, as they were before the mixin."""
    host.session.execute(insert(host.Thesis), [{"state": "Original", **row} for row in rows])
    host.session.commit()


def rows_of(host: Host) -> list[Any]:
    host.session.expire_all()
    return list(host.session.scalars(select(host.Thesis).order_by(host.Thesis.id)))


def count_missing(host: Host) -> int:
    return host.session.scalars(
        select(func.count()).select_from(host.Thesis).where(host.Thesis.ibi_rep.is_(None))
    ).one()


def adopt(host: Host, *words: str, model: str = "support.host_models:Thesis") -> Any:
    result = host.app.test_cli_runner().invoke(args=["ibi", "adopt", model, *words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def assert_agree(host: Host) -> None:
    """Each row has an identifier, and its item has the same title."""
    items = {item.record.ibip: item.title for item in host.archive.find()}
    assert items == {row.ibi: row.title for row in rows_of(host)}


def test_all_rows_without_identifiers_are_adopted_together_or_in_batches(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adopting, "BATCH", 3)
    known = host.add("known")
    for words in ((), ("--resume",)):
        insert_rows(host, *[{"title": f"thesis {number}"} for number in range(7)])
        label = known.ibi
        result = adopt(host, *words)
        assert result.output == "adopted 7, refused 0\n"
        assert result.exit_code == 0
        assert rows_of(host)[0].ibi == label
        assert_agree(host)
    assert {row.changes for row in rows_of(host)} == {0}  # adoption is no change of the content


class GUID(TypeDecorator[uuid.UUID]):
    """The recipe of SQLAlchemy's documentation: UUID on PostgreSQL, CHAR on other databases."""

    impl = CHAR
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> Any:
        is_postgresql = dialect.name == "postgresql"
        return dialect.type_descriptor(UUID() if is_postgresql else CHAR(32))  # type: ignore[arg-type]

    def process_bind_param(self, value: uuid.UUID | None, dialect: Dialect) -> Any:
        return value if value is None or dialect.name == "postgresql" else value.hex

    def process_result_value(self, value: Any, dialect: Dialect) -> uuid.UUID | None:
        return value if value is None or isinstance(value, uuid.UUID) else uuid.UUID(value)


class Negated(TypeDecorator[int]):
    """A number that the database stores with the opposite sign, thus in the opposite order."""

    impl = Integer
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: Dialect) -> int | None:
        return None if value is None else -value

    def process_result_value(self, value: int | None, dialect: Dialect) -> int | None:
        return None if value is None else -value


@pytest.mark.postgresql
@pytest.mark.parametrize(
    ("batch", "count"),
    [pytest.param(adopting.BATCH, adopting.BATCH + 500, marks=pytest.mark.slow), (3, 10)],
)
def test_rows_are_adopted_in_batches_whatever_the_type_of_their_key(
    host: Host, monkeypatch: pytest.MonkeyPatch, batch: int, count: int
) -> None:
    class Base(DeclarativeBase):
        pass

    class Dataset(IdentifiedItem, Base):
        __tablename__ = "host_dataset"
        id: Mapped[uuid.UUID] = mapped_column(GUID, primary_key=True)

        def ibi_record(self) -> ItemRecord:
            return ItemRecord(title=str(self.id))

    class Version(IdentifiedItem, Base):
        __tablename__ = "host_version"
        number: Mapped[int] = mapped_column(Negated, primary_key=True)
        id: Mapped[uuid.UUID] = mapped_column(GUID, primary_key=True)

        def ibi_record(self) -> ItemRecord:
            return ItemRecord(title=f"{self.number} {self.id}")

    monkeypatch.setattr(adopting, "BATCH", batch)
    Base.metadata.create_all(host.engine)
    try:
        ids = [uuid.uuid4() for _ in range(count)]
        host.session.execute(insert(Dataset), [{"id": one} for one in ids])
        versions = [{"number": n % 4, "id": one} for n, one in enumerate(ids)]
        host.session.execute(insert(Version), versions)
        host.session.commit()
        for model in (Dataset, Version):
            result = adopting.Adopter(host.archive, host.session(), model, resume=True).run()
            assert (result.adopted, result.refused) == (count, 0)
        titles = {item.title for item in host.archive.find()}
        assert titles == {*map(str, ids), *(f"{one['number']} {one['id']}" for one in versions)}
    finally:
        host.session.remove()
        Base.metadata.drop_all(host.engine)


def test_editions_and_translations_are_adopted_in_any_order(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adopting, "BATCH", 2)
    languages = ["fr", "pt", "en", "es", "en"]
    insert_rows(
        host,
        *[{"id": key, "title": str(key), "language": languages[key - 1]} for key in range(1, 6)],
    )
    table = host.Thesis.__table__
    for key, values in {
        1: {"translated_id": 2},
        2: {"translated_id": 5},
        3: {"previous_id": 5},
    }.items():
        host.session.execute(table.update().where(table.c.id == key).values(values))
    host.session.commit()
    assert adopt(host, "--resume").output == "adopted 5, refused 0\n"
    first, second, third, _, fifth = rows_of(host)
    item = host.archive.get(fifth.ibi)
    assert item is not None
    assert item.record.next_edition == third.ibi_rep
    assert item.record.translations == {"pt": second.ibi_rep, "fr": first.ibi_rep}


def test_rows_that_cannot_be_adopted_are_reported_and_the_others_are_adopted(host: Host) -> None:
    insert_rows(
        host,
        {"title": "right"},
        {"title": "wrong", "language": "xx"},
        {"title": "without file", "pdf": "/nowhere/a.pdf"},
        {"title": "draft", "state": "Draft"},
        {"title": "withdrawn", "state": "Deleted"},
    )
    result = adopt(host)
    assert result.exit_code == 1
    lines = result.output.splitlines()
    assert lines[0].startswith("Thesis 2: language: 'xx' is not a language; write")
    assert lines[1] == "Thesis 3: /nowhere/a.pdf can't be read: No such file or directory"
    assert lines[2:] == [
        "adopted 3, refused 2",
        "Error: 2 rows could not be adopted; correct them and run adopt again",
    ]
    right, wrong, _, draft, withdrawn = rows_of(host)
    assert (wrong.ibi, host.archive.get(draft.ibi)) == (None, None)
    assert host.archive.reservations()[0].ibip == draft.ibi
    states = {item.ibi: item.record.state for item in host.archive.find()}
    assert states == {right.ibi: "Original", withdrawn.ibi: "Deleted"}

    wrong.language = "pt"
    host.session.commit()
    assert "adopted 0, refused 1" in adopt(host).output


def test_an_error_of_the_hosts_method_is_reported_with_the_row(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert_rows(host, {"title": "right"}, {"title": "wrong"})
    describe = host.Thesis.ibi_record
    monkeypatch.setattr(host.Thesis, "ibi_record", lambda row: {"right": describe}[row.title](row))
    result = adopt(host)
    assert "Thesis 2: ibi_record() raised KeyError: 'wrong'" in result.output
    assert "adopted 1, refused 1" in result.output


def test_where_selects_rows(host: Host) -> None:
    insert_rows(host, {"title": "100% rain: on :snow"}, {"title": "ice"}, {"title": "hail"})
    assert adopt(host, "--where", "title LIKE '100%: on :sn%' OR title = 'ice'").exit_code == 0
    assert [row.ibi is None for row in rows_of(host)] == [False, False, True]


def test_a_dry_run_reports_all_problems_and_changes_nothing(host: Host) -> None:
    insert_rows(
        host,
        {"title": "first", "language": "en", "pdf": host.write("a.pdf", "rain")},
        {"title": "wrong", "language": "xx"},
        {"title": "second", "previous_id": 1},
        {"title": "third", "previous_id": 1},
    )
    before = dump(host.archive.database, ("ibi_prefix", "ibi_item", "ibi_reservation"))
    result = adopt(host, "--dry-run")
    assert result.exit_code == 1
    assert "Thesis 2: language: 'xx'" in result.output
    assert "already has a next edition" in result.output
    assert "would be adopted 2, would be refused 2" in result.output
    assert dump(host.archive.database, ("ibi_prefix", "ibi_item", "ibi_reservation")) == before
    assert count_missing(host) == 4
    assert paths_in_store(host.archive) == []


@pytest.mark.postgresql
def test_an_adoption_that_is_locked_out_by_another_transaction_says_so(
    new_host: Callable[..., Host],
) -> None:
    host = new_host(IBI_DATABASE_TIMEOUT=0.1)
    insert_rows(host, {"title": "thesis"})
    limit, lock = {
        "sqlite": ("PRAGMA busy_timeout = 1", "BEGIN EXCLUSIVE"),
        "postgresql": ("SET LOCAL lock_timeout = 1", "LOCK TABLE host_thesis"),
    }[host.engine.dialect.name]
    session = host.session()
    session.execute(text(limit))
    with closing(host.engine.raw_connection()) as other:
        other.cursor().execute(lock)
        with pytest.raises(NotReady, match="another transaction blocks this transaction"):
            adopting.Adopter(host.archive, session, host.Thesis).run()
    assert count_missing(host) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["Thesis"], "'Thesis' should be MODULE:MODEL, such as myapp.models:Thesis"),
        (["nowhere:Thesis"], "the module nowhere can't be imported: ModuleNotFoundError"),
        (["support.host_models:Thesiss"], "DataclassThesis, FlaskThesis, Thesis"),
        (["support.host_models:Thesis", "--where", "titel = 1"], "titel"),
        (["support.host_models:Thesis", "--dry-run", "--resume"], "can't be used with --resume"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(
    host: Host, words: list[str], message: str
) -> None:
    result = adopt(host, *words[1:], model=words[0])
    assert result.exit_code in (1, 2)
    [line] = [line for line in result.output.splitlines() if line.startswith("Error: ")]
    assert message in line


@pytest.mark.parametrize("resume", ["yes", pytest.param("no", marks=pytest.mark.slow)])
def test_an_adoption_that_is_killed_can_be_continued(
    host: Host, uri: str, tmp_path: Path, resume: str
) -> None:
    insert_rows(
        host,
        *[
            {
                "title": f"{number}",
                "language": "en",
                "pdf": host.write(f"{number}.pdf", str(number)),
            }
            for number in range(30)
        ],
    )
    table = host.Thesis.__table__
    host.session.execute(table.update().where(table.c.id > 1).values(previous_id=table.c.id - 1))
    host.session.commit()
    with subprocess.Popen(
        [sys.executable, str(PROGRAM), uri, str(tmp_path), resume, "4"],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])},
        text=True,
    ) as process:
        assert process.stdout is not None
        for _ in range(3):
            assert process.stdout.readline().startswith("progress")
        process.send_signal(signal.SIGKILL)
    missing = count_missing(host)
    host.session.rollback()
    assert missing == 30 if resume == "no" else missing <= 18
    result = adopt(host, "--resume")
    assert result.output == f"adopted {missing}, refused 0\n"
    assert_agree(host)
    rows = rows_of(host)
    chain = {item.record.ibip: item.record.next_edition for item in host.archive.find()}
    assert [chain[row.ibi] for row in rows] == [*[row.ibi_rep for row in rows[1:]], None]


@pytest.mark.slow
def test_an_adoption_that_is_killed_thirty_times_gives_no_row_a_second_identifier(
    host: Host, uri: str, tmp_path: Path
) -> None:
    random, known, killed = Random(1), {}, 0
    table = host.Thesis.__table__
    for turn in range(30):
        insert_rows(host, *[{"title": f"{turn}.{number}"} for number in range(60)])
        known.update({row.id: row.ibi for row in rows_of(host) if row.ibi is not None})
        if turn % 3 == 2:
            host.session.execute(table.update().values(ibi_rep=None, ibi_ibip=None))
        host.session.commit()
        process = subprocess.run(
            [
                sys.executable,
                str(PROGRAM),
                uri,
                str(tmp_path),
                "yes",
                "20",
                str(random.randint(1, 250)),
            ],
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])},
            check=False,
        )
        killed += process.returncode == -signal.SIGKILL
    adopt(host, "--resume")
    assert_agree(host)
    assert (len(known) >= 60, killed >= 20) == (True, True), (len(known), killed)
    assert {row.id: row.ibi for row in rows_of(host) if row.id in known} == known
    assert list(Comparer(host.archive, host.session(), host.Thesis).run()) == []


@pytest.mark.slow
@pytest.mark.parametrize("resume", ["yes", "no"])
def test_a_hundred_thousand_rows_in_bounded_memory(
    host: Host, uri: str, tmp_path: Path, resume: str
) -> None:
    for start in range(0, 100_000, 5000):
        insert_rows(host, *[{"title": f"thesis {start + n}"} for n in range(5000)])
    done = subprocess.run(
        [sys.executable, str(PROGRAM), uri, str(tmp_path), resume, "1000"],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])},
        text=True,
        check=True,
    )
    last = done.stdout.splitlines()[-1]
    print(last)
    assert last.startswith("adopted 100000 0 ")
    assert int(last.split()[-2]) < 120 * 1024
    assert count_missing(host) == 0
