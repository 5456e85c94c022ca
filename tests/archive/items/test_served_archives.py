"""Archives: creation, the choice of the served Archive, updates by ``init``."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import text
from support.archives import SERVICE, archive_of, everything_in

from flask_ibi_archive import ItemRecord
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.errors import ConfigError, NotReady

SECOND = "dpi.inpe.br/banon/1999/01.09.22.14"
IBIP = "J8LNKB5R7W/3FUQHC5"
NewApp = Callable[..., Flask]


def rows(archive: Archive, sql: str) -> list[tuple[Any, ...]]:
    with archive.database.reading() as connection:
        return [tuple(row) for row in connection.execute(text(sql))]


@pytest.mark.no_tables
@pytest.mark.rule("R4-04")
@pytest.mark.parametrize(
    ("service", "forms"),
    [
        (SERVICE, (SERVICE, None)),
        (IBIP, (None, IBIP)),
        (IBIP.lower(), (None, IBIP)),
        (None, ("sid.inpe.br/mtc-m16c/", "8JMKD3MGP8W/")),
    ],
)
def test_init_twice_is_harmless_and_mints_only_if_no_service_is_configured(
    new_app: NewApp, service: str | None, forms: tuple[str | None, str | None]
) -> None:
    archive = archive_of(new_app(IBI_ARCHIVE_SERVICE_IBI=service))
    served, created = archive.init()
    before = everything_in(archive)
    assert created
    assert archive.init() == (served, False)
    # and in another process
    assert archive_of(new_app(IBI_ARCHIVE_SERVICE_IBI=service)).init() == (served, False)
    assert everything_in(archive) == before
    assert served.service_ibi == (served.rep or served.ibip)
    if service is None:
        assert str(served.rep).startswith(str(forms[0]))
        assert str(served.ibip).startswith(str(forms[1]))
        assert archive.mint()[0].rep != served.rep
    else:
        assert (served.rep, served.ibip) == forms
        assert rows(archive, "SELECT * FROM ibi_prefix") == []


@pytest.mark.rule("R3-08")
def test_init_updates_the_facts_about_the_archive(new_app: NewApp) -> None:
    sql = "SELECT address, ip, protocol, platform_version, admin_email FROM ibi_archive"
    first = archive_of(new_app(IBI_ARCHIVE_PLATFORM_VERSION="1"))
    served, _ = first.init()
    assert rows(first, sql) == [("mtc-m16c.sid.inpe.br", "150.163.34.243", "HTTP", "1", None)]
    address, email = "mtc-m18.sid.inpe.br:8080", "banon@dpi.inpe.br"
    changed = {"IBI_ARCHIVE_ADDRESS": address, "IBI_ARCHIVE_ADMIN_EMAIL": email}
    second = new_app(IBI_ARCHIVE_IP=None, IBI_ARCHIVE_PLATFORM_VERSION="2", **changed)
    assert archive_of(second).init() == (served, False)
    assert rows(first, sql) == [(address, None, "HTTP", "2", email)]


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
    other = archive_of(new_app(IBI_ARCHIVE_SERVICE_IBI=SECOND))
    reason = f"does not contain the Archive {SECOND} yet; run: flask ibi init"
    with pytest.raises(NotReady, match=reason):
        other.served()
    other.init()
    unnamed = archive_of(new_app(IBI_ARCHIVE_SERVICE_IBI=None))
    for step in (unnamed.served, unnamed.init):
        with pytest.raises(ConfigError, match=r"SERVICE_IBI is not set.*one of the 2") as refusal:
            step()
        assert SERVICE in str(refusal.value)
        assert SECOND in str(refusal.value)
    assert len(rows(unnamed, "SELECT * FROM ibi_archive")) == 2


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


@pytest.mark.postgresql
@pytest.mark.no_tables
def test_two_at_once_create_one_archive(new_app: NewApp) -> None:
    archives = [archive_of(new_app(IBI_ARCHIVE_SERVICE_IBI=None)) for _ in range(2)]
    with ThreadPoolExecutor(2) as threads:
        ends = [*threads.map(Archive.init, archives)]
    assert sorted(created for _, created in ends) == [False, True]
    assert ends[0][0] == ends[1][0]
    assert len(rows(archives[0], "SELECT * FROM ibi_item")) == 1
