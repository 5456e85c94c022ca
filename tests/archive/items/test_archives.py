"""Archives: creation, the choice of the served Archive, updates by ``init``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import text
from support.archives import SERVICE, archive_of, import_records
from support.commands import start_together

from flask_ibi_archive import ItemRecord
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.errors import ConfigError, NotReady, RuleBroken

SECOND = "dpi.inpe.br/banon/1999/01.09.22.14"
IBIP = "J8LNKB5R7W/3FUQHC5"
REP = "sid.inpe.br/mtc-m19/2013/09.04.12.27.57"
NewApp = Callable[..., Flask]


def rows(archive: Archive, sql: str) -> list[tuple[Any, ...]]:
    with archive.database.reading() as connection:
        return [tuple(row) for row in connection.execute(text(sql))]


def everything(archive: Archive) -> list[list[tuple[Any, ...]]]:
    tables = ("ibi_archive", "ibi_item", "ibi_identifier", "ibi_prefix")
    return [rows(archive, f"SELECT * FROM {table} ORDER BY 1, 2") for table in tables]


@pytest.mark.no_tables
@pytest.mark.parametrize("service", [SERVICE, IBIP, None])
def test_init_twice_is_harmless(new_app: NewApp, service: str | None) -> None:
    archive = archive_of(new_app(IBI_ARCHIVE_SERVICE_IBI=service))
    served, created = archive.init()
    before = everything(archive)
    assert created
    assert archive.init() == (served, False)
    # and in another process
    assert archive_of(new_app(IBI_ARCHIVE_SERVICE_IBI=service)).init() == (served, False)
    assert everything(archive) == before


@pytest.mark.rule("R4-04")
@pytest.mark.parametrize(
    ("service", "forms"),
    [(SERVICE, (SERVICE, None)), (IBIP, (None, IBIP)), (IBIP.lower(), (None, IBIP))],
)
def test_a_configured_service_ibi_is_used_and_nothing_is_minted(
    new_app: NewApp, service: str, forms: tuple[str | None, str | None]
) -> None:
    archive = archive_of(new_app(IBI_ARCHIVE_SERVICE_IBI=service))
    served, _ = archive.init()
    assert (served.rep, served.ibip) == forms
    assert served.service_ibi == (forms[0] or forms[1])
    assert rows(archive, "SELECT * FROM ibi_prefix") == []


def test_a_service_ibi_that_is_minted_has_both_forms(new_app: NewApp) -> None:
    archive = archive_of(new_app(IBI_ARCHIVE_SERVICE_IBI=None))
    served, _ = archive.init()
    assert served.rep is not None
    assert served.rep.startswith("sid.inpe.br/mtc-m16c/")
    assert served.ibip is not None
    assert served.ibip.startswith("8JMKD3MGP8W/")
    assert archive.mint()[0].rep != served.rep


@pytest.mark.rule("R2-02")
def test_the_service_is_an_Original_that_is_not_transferable(app: Flask) -> None:
    archive = archive_of(app)
    found = rows(archive, "SELECT rep, state, transferable, is_service FROM ibi_item")
    assert found == [(SERVICE, "Original", False, True)]
    assert rows(archive, "SELECT service_item_id = (SELECT id FROM ibi_item) FROM ibi_archive") in (
        [(1,)],
        [(True,)],
    )


@pytest.mark.rule("R3-08")
def test_init_updates_the_facts_about_the_archive(new_app: NewApp) -> None:
    sql = "SELECT address, ip, protocol, platform_version, admin_email FROM ibi_archive"
    first = archive_of(new_app(IBI_ARCHIVE_PLATFORM_VERSION="1"))
    served, _ = first.init()
    assert rows(first, sql) == [("mtc-m16c.sid.inpe.br", "150.163.34.243", "HTTP", "1", None)]
    second = archive_of(
        new_app(
            IBI_ARCHIVE_ADDRESS="mtc-m18.sid.inpe.br:8080",
            IBI_ARCHIVE_IP=None,
            IBI_ARCHIVE_PLATFORM_VERSION="2",
            IBI_ARCHIVE_ADMIN_EMAIL="banon@dpi.inpe.br",
        )
    )
    assert second.init() == (served, False)
    assert rows(first, sql) == [
        ("mtc-m18.sid.inpe.br:8080", None, "HTTP", "2", "banon@dpi.inpe.br")
    ]


# --- several Archives ----------------------------------------------------------------------------


@pytest.mark.rule("R3-01")
def test_a_database_may_hold_several_Archives(new_app: NewApp) -> None:
    archives = [archive_of(new_app(IBI_ARCHIVE_SERVICE_IBI=ibi)) for ibi in (SERVICE, SECOND, IBIP)]
    served = [archive.init()[0] for archive in archives]
    assert len({one.id for one in served}) == 3
    assert len({one.database for one in served}) == 1
    minted = archives[1].deposit(ItemRecord())
    assert archives[1].get(minted.ibip) is not None
    assert archives[0].get(minted.rep) is None
    for archive, one in zip(archives, served, strict=True):
        assert archive.served() == one
        assert archive.serves(one.service_ibi)
        assert archive.init() == (one, False)


def test_an_app_that_names_none_serves_the_only_one(new_app: NewApp) -> None:
    served, _ = archive_of(new_app()).init()
    unnamed = archive_of(new_app(IBI_ARCHIVE_SERVICE_IBI=None))
    assert unnamed.served() == served
    assert unnamed.init() == (served, False)


@pytest.mark.parametrize("step", ["served", "init"])
def test_an_app_that_names_none_of_several_archives_is_an_error(new_app: NewApp, step: str) -> None:
    for ibi in (SERVICE, SECOND):
        archive_of(new_app(IBI_ARCHIVE_SERVICE_IBI=ibi)).init()
    unnamed = archive_of(new_app(IBI_ARCHIVE_SERVICE_IBI=None))
    with pytest.raises(
        ConfigError, match=r"IBI_ARCHIVE_SERVICE_IBI is not set.*one of the 2"
    ) as refusal:
        getattr(unnamed, step)()
    assert SERVICE in str(refusal.value)
    assert SECOND in str(refusal.value)
    assert len(rows(unnamed, "SELECT * FROM ibi_archive")) == 2


@pytest.mark.parametrize("state", ["Original", "Deleted"])
def test_a_service_ibi_that_an_item_bears(new_app: NewApp, state: str) -> None:
    archive = archive_of(new_app())
    archive.init()
    item = {"rep": REP, "state": state, "timestamp": "2013-09-04T12:27:57Z"}
    import_records(archive, [item])
    other = archive_of(new_app(IBI_ARCHIVE_SERVICE_IBI=REP))
    if state == "Deleted":
        assert other.init()[1]
        return
    before = everything(archive)
    with pytest.raises(RuleBroken) as refusal:
        other.init()
    assert (refusal.value.rule, refusal.value.ibi) == (3, REP)
    assert everything(archive) == before


# --- an app before its Archive -------------------------------------------------------------------


@pytest.mark.no_tables
@pytest.mark.parametrize("service", [SERVICE, None])
@pytest.mark.parametrize("upgraded", [False, True])
def test_an_app_may_start_before_its_Archive_is_there(
    new_app: NewApp, service: str | None, upgraded: bool
) -> None:
    waiting = archive_of(new_app(IBI_ARCHIVE_SERVICE_IBI=service))
    if upgraded:
        waiting.upgrade()
    for _ in range(2):
        with pytest.raises(NotReady, match="run: flask ibi init"):
            waiting.served()
    served, created = archive_of(new_app(IBI_ARCHIVE_SERVICE_IBI=service)).init()
    assert created
    assert waiting.served() == served


def test_an_archive_with_another_service_ibi_is_not_served(new_app: NewApp) -> None:
    archive_of(new_app()).init()
    other = archive_of(new_app(IBI_ARCHIVE_SERVICE_IBI=SECOND))
    with pytest.raises(
        NotReady, match=f"does not contain the Archive {SECOND} yet; run: flask ibi init"
    ):
        other.served()


# --- at once -------------------------------------------------------------------------------------


@pytest.mark.postgresql
@pytest.mark.no_tables
def test_processes_that_init_at_once_create_one_archive(
    uri: str, new_app: NewApp, tmp_path: Path
) -> None:
    ends = start_together(Path(__file__).with_name("archive_process.py"), *[(uri, tmp_path)] * 2)
    assert [err for _, err in ends] == ["", ""]
    printed = [out.split() for out, _ in ends]
    assert sorted(created for *_, created in printed) == ["False", "True"]
    assert len({(rep, ibip) for rep, ibip, _ in printed}) == 1
    archive = archive_of(new_app(IBI_ARCHIVE_SERVICE_IBI=None))
    assert archive.served().service_ibi == printed[0][0]
    assert len(rows(archive, "SELECT * FROM ibi_item")) == 1
