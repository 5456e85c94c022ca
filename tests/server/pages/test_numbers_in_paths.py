"""Numbers in the paths of pages have a limit, because the columns of databases have one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from flask import Flask
from support.archives import configure

from example_app import create_app
from flask_ibi_archive import IBIArchive
from flask_ibi_archive.resolver import IBIResolver


@pytest.fixture
def apps(tmp_path: Path) -> list[Flask]:
    """An app with all pages of this package, and the example app."""
    app = Flask("host", instance_path=str(tmp_path))
    missing = f"sqlite:///{tmp_path / 'missing.sqlite'}"
    configure(app, missing, tmp_path, IBI_RESOLVER_DATABASE_URI=missing, IBI_IDENTIFICATION=True)
    IBIArchive(app)
    IBIResolver(app)
    return [app, create_app({"IBI_DATABASE_URI": missing, "UPLOAD_FOLDER": str(tmp_path)})]


def test_each_number_in_a_path_has_a_limit(apps: list[Flask]) -> None:
    text = "\n".join(rule.rule for app in apps for rule in app.url_map.iter_rules())
    numbers = re.findall("<(int.*?):[a-z]+>", text)
    assert len(numbers) > 10
    assert set(numbers) == {"int(max=2147483647)"}


@pytest.mark.parametrize(
    "path", ["/ibi/items/", "/ibi/sitemap/", "/ibi/conflicts/", "/publications/"]
)
def test_no_page_has_a_larger_number(apps: list[Flask], path: str) -> None:
    for app in apps:
        assert app.test_client().get(f"{path}{10**22}").status_code == 404
