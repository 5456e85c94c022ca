"""Fixtures for tests of claims: an Archive with a log, and a clock."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask
from support.archives import archive_of, close, make_app
from support.clocks import Clock
from support.harvesting import MORNING

from flask_ibi_archive import IBIArchive
from flask_ibi_archive.archive.archive import Archive


@pytest.fixture
def clock() -> Clock:
    return Clock(MORNING)


@pytest.fixture
def app(uri: str, tmp_path: Path, clock: Clock) -> Iterator[Flask]:
    app = make_app(uri, tmp_path, IBIArchive(clock=clock))
    archive_of(app).init()
    yield app
    close(app)


@pytest.fixture
def archive(app: Flask) -> Archive:
    """An Archive with a log."""
    archive = archive_of(app)
    archive.claims.create_key()
    return archive
