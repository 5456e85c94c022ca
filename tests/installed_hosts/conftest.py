"""Fixtures for all hosts: an empty database of each kind, a server, a tab of a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page
from sqlalchemy import make_url
from support.databases import BACKENDS, new_database
from support.fixtures import browser_type_launch_args  # noqa: F401
from support.loopback import Later, serving
from werkzeug.exceptions import NotFound

#: The address of the servers of the tests.
HERE = "127.0.0.1"
pytest_plugins = ["flask_ibi_archive.testing"]


@pytest.fixture(params=BACKENDS)
def ibi_database_uri(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a new database of each kind in turn, without any table.

    On PostgreSQL it is a database, and no schema, because hosts set the options of connections.
    """
    with new_database(request.param, tmp_path) as uri:
        url = make_url(uri).difference_update_query(["options"])
        yield url.render_as_string(hide_password=False)


class Server(Later):
    """A server of one app. Its address is known before the app exists, which needs it."""

    app: Any = NotFound()
    address: str

    @property
    def url(self) -> str:
        return f"http://{self.address}"


@pytest.fixture
def server() -> Iterator[Server]:
    """A server for the app of the test."""
    server = Server()
    with serving(server) as server.address:
        yield server


@pytest.fixture
def ibi_settings(ibi_settings: dict[str, Any], server: Server) -> dict[str, Any]:
    """The settings of an app at the address of the server."""
    return {**ibi_settings, "IBI_ARCHIVE_ADDRESS": server.address}


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
