"""The commands init, upgrade and downgrade, and errors of all commands before init."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from flask import Flask
from support.archives import SERVICE
from support.commands import command

from flask_ibi_archive.core.identifiers.grammar import Form
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.server.database.migrate import head_revision

pytestmark = pytest.mark.no_tables

NewApp = Callable[..., Flask]

#: A call of each command that needs an Archive.
CALLS = {
    "check": ("check",),
    "mint": ("mint",),
    "add": ("add", __file__),
    "import": ("import", __file__),
    "export": ("export",),
    "show": ("show", "8JMKD3MGP8W/35MME4E"),
    "list": ("list",),
    "list --json": ("list", "--json"),
    "url-list": ("url-list", "8JMKD3MGP8W/35MME4E"),
}
SETUP = {"init": ("init",), "upgrade": ("upgrade",), "downgrade": ("downgrade", "--yes")}
#: check writes to standard output, and mint only needs the tables.
NEED_ARCHIVE = [words for name, words in CALLS.items() if name not in ("check", "mint")]


@pytest.mark.rule("R5-03")
def test_each_init_prints_the_ibi_of_the_service(new_app: NewApp) -> None:
    assert command(new_app(), "init").data == f"{SERVICE}\n"
    assert command(new_app(), "init").data == f"{SERVICE}\n"
    assert command(new_app(), "list").lines[1:] == []
    # init without a folder for the key of claims warns
    app = new_app(IBI_FOLDER="/dev/null")
    done = command(app, "init")
    assert (done.status, done.out) == (0, f"{SERVICE}\n")
    assert "no claims are published: " in done.err
    assert "set IBI_FOLDER to a folder" in done.err
    assert "IBI_CLAIMS to false" in done.err


def test_init_without_a_service_ibi_mints_one_and_only_once(new_app: NewApp) -> None:
    app = new_app(IBI_ARCHIVE_SERVICE_IBI=None)
    minted = command(app, "init").data
    assert parse_identifier(minted.strip()).form is Form.REP
    assert command(app, "init").data == minted
    assert command(new_app(IBI_ARCHIVE_SERVICE_IBI=minted.strip()), "init").data == minted


def test_init_warns_of_a_private_address_when_it_mints(new_app: NewApp) -> None:
    app = new_app(IBI_ARCHIVE_SERVICE_IBI=None, IBI_ARCHIVE_IP="192.168.1.1")
    first = command(app, "init")
    assert first.status == 0
    assert len(first.out.splitlines()) == 1
    assert first.err.startswith("Warning: IBI_ARCHIVE_IP is 192.168.1.1, a private address")
    assert command(app, "init").err == ""


@pytest.mark.no_tables
def test_a_trial_warns_and_cannot_be_registered(new_app: NewApp) -> None:
    settings = {
        "IBI_ARCHIVE_SERVICE_IBI": None,
        "IBI_ARCHIVE_IP": "127.0.0.1",
        "IBI_REGISTRATION_KEY": "1234567890",
        "IBI_ARCHIVE_ADMIN_EMAIL": "banon@dpi.inpe.br",
    }
    app = new_app(IBI_ARCHIVE_ADDRESS="localhost:5000", **settings)
    first = command(app, "init")
    assert first.out.startswith("localdomain/localhost.5000/")
    assert first.err.startswith("Warning: this Archive is a trial on one computer")
    for address in ("localhost:5000", "repository.example.org"):
        app = new_app(IBI_ARCHIVE_ADDRESS=address, **settings)
        refused = command(app, "register-archive")
        assert refused.status == 1
        assert "the Archive is a trial on one computer" in refused.err


def moved(app: Flask, *words: str) -> str:
    """Migrate the tables and return the message about their revision."""
    outcome = command(app, *words)
    assert (outcome.status, outcome.out) == (0, "")
    return outcome.err


def test_upgrade_and_downgrade_say_the_revision_of_the_tables(new_app: NewApp) -> None:
    app = new_app()
    assert moved(app, "upgrade") == f"the tables are at revision {head_revision()}\n"
    assert moved(app, "downgrade", "base", "--yes") == "the database has no tables\n"
    assert moved(app, "upgrade", "ibi_0001") == "the tables are at revision ibi_0001\n"
    assert moved(app, "downgrade", "--yes", "--", "-1") == "the database has no tables\n"


def test_an_unknown_option_of_downgrade_changes_nothing(app: Flask) -> None:
    for word in ["-x", "-1x"]:
        assert word in command(app, "downgrade", "--yes", word).usage
        assert command(app, "list").lines[1:] == []


def test_each_command_before_init_advises_init(new_app: NewApp) -> None:
    for words in NEED_ARCHIVE:
        assert command(new_app(), *words).error.endswith("run: flask ibi init")
    # each command without an archive in the tables advises init
    for words in NEED_ARCHIVE:
        app = new_app()
        command(app, "upgrade")
        assert command(app, *words).error.endswith("run: flask ibi init")


#: Calls that fail if the database is missing; check writes this to standard output.
MISSING = [*NEED_ARCHIVE, ("mint",), ("stats",), ("verify",), ("downgrade", "--yes"), ("check",)]


@pytest.mark.parametrize("uri", [""])
def test_a_missing_sqlite_file_is_named_and_not_created(new_app: NewApp, tmp_path: Path) -> None:
    file = tmp_path / "instance" / "ibi.sqlite"
    here = {"IBI_RESOLVER_URL": "http://127.0.0.1:1", "IBI_ARCHIVE_ADDRESS": "127.0.0.1:1"}
    app = new_app(IBI_DATABASE_URI=f"sqlite:///{file}", IBI_MINT_HOST="a.br", **here)
    for words in MISSING:
        outcome = command(app, *words)
        said = outcome.out if words == ("check",) else outcome.err
        assert outcome.status == 1
        assert f"the database file is missing ({file}); run: flask ibi init\n" in said
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("uri", ["sqlite://"])
def test_a_wrong_setting_is_an_error_of_every_command(new_app: NewApp) -> None:
    bare = "this app has no IBIArchive; call IBIArchive(app) where the app is created"
    wrong = {"IBI_GRANULARITY": (7, "is 7"), "SECRET_KEY": (None, "is not set")}
    for words in (*SETUP.values(), *CALLS.values()):
        assert command(Flask("bare"), *words).error == bare
        for key, (value, text) in wrong.items():
            error = command(partial(new_app, **{key: value}), *words).error
            assert error.startswith(f"{key} {text}; it should be")
