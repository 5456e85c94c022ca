"""Several instances: application factories, several apps in one process, shared objects."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
import responses
from click.testing import CliRunner
from flask import Flask, render_template_string
from support.commands import SEPARATE, command
from support.host_app import HostApp

from flask_ibi_archive import IBIArchive
from flask_ibi_archive.testing import Reader

SERVICES = [f"a.br/service{number}/2000/01.01.00.00" for number in range(3)]

#: Creates an app with its own database; the number distinguishes the apps.
Factory = Callable[..., Flask]


@pytest.fixture
def factory(tmp_path: Path) -> Iterator[Factory]:
    """An application factory. Each app has its own SQLite database and its own service."""
    made: list[HostApp] = []

    def create_app(number: int, ibi: IBIArchive) -> Flask:
        folder = tmp_path / f"app{number}"
        folder.mkdir()
        uri, address = f"sqlite:///{folder / 'host.sqlite'}", f"app{number}.example.org"
        config = {
            "IBI_DATABASE_URI": uri,
            "IBI_ARCHIVE_SERVICE_IBI": SERVICES[number],
            "IBI_ARCHIVE_ADDRESS": address,
            # Archives with different databases need different ports to mint different identifiers
            "IBI_MINT_HOST": address,
            "IBI_MINT_PORT": 8000 + number,
        }
        made.append(HostApp(uri, folder, ibi=ibi, **config))
        made[-1].archive.init()
        return made[-1].app

    yield create_app
    for host in made:
        host.close()


def deposit(ibi: IBIArchive, app: Flask, title: str) -> str:
    with app.app_context():
        return ibi.archive.deposit(title=title).ibi


def test_one_object_serves_several_apps(factory: Factory) -> None:
    ibi = IBIArchive()
    apps = [factory(number, ibi) for number in range(3)]
    items = [deposit(ibi, app, f"Title {number}") for number, app in enumerate(apps)]
    for number, app in enumerate(apps):
        for other, item in enumerate(items):
            known = Reader(app).request_urls(item)
            assert bool(known) == (number == other)
        with apps[0].app_context(), app.app_context():  # the innermost app counts
            assert ibi.archive is Reader(app).archive
            assert [item.title for item in ibi.archive.find()] == [f"Title {number}"]
            template = "{{ ibi_persistent_url('8JMKD3MGP8W/35MME4E') }}"
            assert render_template_string(template).endswith("/8JMKD3MGP8W/35MME4E")


# --- apps without routes, and other command lines


def test_an_app_without_routes_deposits_and_answers_nothing(
    factory: Factory, mocked: responses.RequestsMock
) -> None:
    ibi = IBIArchive(routes=False)
    app = factory(0, ibi)
    rules = {rule.rule for rule in Flask("plain").url_map.iter_rules()}
    assert {rule.rule for rule in app.url_map.iter_rules()} == rules
    assert not app.blueprints
    assert app.preprocess_request.__func__ is Flask.preprocess_request  # type: ignore[attr-defined]
    identifier = deposit(ibi, app, "Annual report")
    client = app.test_client()
    for path in (identifier, f"col/{identifier}/", SERVICES[0], "ibi/health"):
        assert client.get(f"/{path}").status_code == 404
    lines = command(app, "check").out.splitlines()
    assert "ok   pages: this app serves no pages (routes=False)" in lines
    assert "ok   persistent URLs: this app does not answer them (routes=False)" in lines


@pytest.fixture
def mocked() -> Iterator[responses.RequestsMock]:
    """Answers for the check of address and resolver."""
    with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
        mock.get(re.compile("http://"), body="confirmation yes")
        yield mock


def test_the_commands_work_on_another_command_line(factory: Factory) -> None:
    ibi = IBIArchive()
    app = factory(0, ibi)
    app.debug = True
    deposit(ibi, app, "Annual report")
    created: list[Flask] = []

    def create_app() -> Flask:
        created.append(app)
        return app

    host = click.Group("repository", commands=[ibi.commands(create_app)])
    run = CliRunner(**SEPARATE).invoke
    assert run(host, ["ibi", "--help"]).exit_code == 0
    assert run(host, ["ibi", "decode", "8JMKD3MGP8W/4GR7C9G"]).exit_code == 0
    assert not created  # these commands need no app
    assert "Annual report" in run(host, ["ibi", "list", "--json"]).output
    result = run(host, ["ibi", "show", "nonsense"])
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert result.stderr.startswith("Error: 'nonsense' is not an IBI: ")
    assert created == [app]
    assert app.debug
    # a command line may also open an application context itself
    plain = click.Group("repository", commands=[ibi.commands()])
    with app.app_context():
        assert "Annual report" in run(plain, ["ibi", "list"]).output
    # flask ibi does not change
    assert app.cli.commands["ibi"].context_settings == {}
