"""Apps with ``host_matching=True``, whose routes belong to one host each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, current_app

from flask_ibi_archive import IBIArchive
from flask_ibi_archive.archive.archive import Archive

OTHER = "http://other.example.org"


def create_app(folder: Path, **settings: Any) -> Flask:
    app = Flask("hosts", instance_path=str(folder), host_matching=True, static_host="a.example.org")
    app.config.update(SECRET_KEY="a secret for tests", **settings)

    @app.get("/<path:page>", host="other.example.org")
    def show(page: str) -> str:
        return "the page of the other host"

    return app


@pytest.fixture(params=["repository.example.org", "Repository.example.org:80", "a.org:8080"])
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Archive]:
    app = create_app(
        tmp_path,
        IBI_ARCHIVE_ADDRESS=request.param,
        IBI_ARCHIVE_IP="150.163.34.243",
        IBI_MINT_HOST="mtc-m16c.sid.inpe.br",
    )
    ibi = IBIArchive(app)
    with app.app_context():
        ibi.archive.init()
        yield ibi.archive
    ibi_archive: Archive = app.extensions["ibi_archive"].archive
    ibi_archive.database.close()


def test_the_pages_are_at_the_address_of_the_archive(archive: Archive) -> None:
    item = archive.deposit(title="On rain")
    client = current_app.test_client()
    page = client.get(archive.addresses.item(item))
    assert page.status_code == 200
    assert "On rain" in page.text
    base = archive.config.base_url
    style = page.text.partition('rel="stylesheet" href="')[2].partition('"')[0]
    for path in (style, "/ibi/statistics", "/ibi/health/ready", "/ibi/sitemap.xml"):
        assert client.get(path, base_url=base).status_code == 200, path
    assert client.get("/ibi/statistics", base_url=OTHER).text == "the page of the other host"
