"""Fixtures for all hosts: an empty database of each kind, a server, a tab of a browser."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page
from sqlalchemy import create_engine, make_url, text
from support.databases import BACKENDS, POSTGRESQL
from werkzeug.exceptions import NotFound
from werkzeug.serving import make_server

#: The address of the servers of the tests.
HERE = "127.0.0.1"
pytest_plugins = ["flask_ibi_archive.testing"]


@pytest.fixture(params=BACKENDS)
def ibi_database_uri(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a new database of each kind in turn, without any table.

    On PostgreSQL it is a database, and no schema, because hosts set the options of connections.
    """
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'host.sqlite'}"
        return
    name = f"ibi_host_{uuid.uuid4().hex}"
    engine = create_engine(POSTGRESQL, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
        yield make_url(POSTGRESQL).set(database=name).render_as_string(hide_password=False)
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()


class Server:
    """A server of one app. Its port is known before the app exists, which needs it as a setting."""

    def __init__(self) -> None:
        self.app: Any = NotFound()
        self.server = make_server(HERE, 0, lambda *call: self.app(*call), threaded=True)
        self.address = f"{HERE}:{self.server.port}"
        self.url = f"http://{self.address}"


@pytest.fixture
def server() -> Iterator[Server]:
    """A server for the app of the test."""
    server = Server()
    thread = Thread(target=server.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.server.shutdown()
    thread.join()
    server.server.server_close()


@pytest.fixture
def ibi_settings(ibi_settings: dict[str, Any], server: Server) -> dict[str, Any]:
    """The settings of an app at the address of the server."""
    return {**ibi_settings, "IBI_ARCHIVE_ADDRESS": server.address}


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any]) -> dict[str, Any]:
    """The options of pytest-playwright; without Chromium, the tests with a browser are skipped."""
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no browser here: neither chromium nor google-chrome")
    return {**browser_type_launch_args, "executable_path": path, "args": ["--no-sandbox"]}


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    """A tab of the browser. The test fails if a page has an error or lacks a part."""
    errors: list[str] = []

    def note(message: ConsoleMessage) -> None:
        # a layout may load fonts of other servers, which tests cannot reach
        if message.type == "error" and urlsplit(message.location["url"]).hostname == HERE:
            errors.append(f"{message.text} ({message.location['url']})")

    page = browser.new_page()
    page.route("**/favicon.ico", lambda route: route.fulfill(status=204))  # not each host has one
    page.on("console", note)
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    page.close()
    assert errors == []
