"""Fixtures: the repository of the page docs/hosts.rst on each database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask
from installed_hosts.invenio_site.repository import Site


@pytest.fixture
def site(ibi_settings: dict[str, Any]) -> Iterator[Site]:
    """A repository with an empty database."""
    site = Site(ibi_settings)
    yield site
    site.close()


@pytest.fixture
def app(site: Site) -> Flask:
    """An app with all tables."""
    app = site.create_app()
    site.create_tables(app)
    return app
