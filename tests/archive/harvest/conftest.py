"""An Archive with a clock, whose lists can have short parts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from flask import Flask
from support.archives import archive_of, close, make_app
from support.clocks import Clock
from support.harvesting import MORNING

from flask_ibi_archive import IBIArchive
from flask_ibi_archive.archive.harvest import oai_pmh


@pytest.fixture
def clock() -> Clock:
    return Clock(MORNING)


@pytest.fixture
def ibi(clock: Clock) -> IBIArchive:
    return IBIArchive(clock=clock)


@pytest.fixture
def app(uri: str, tmp_path: Path, ibi: IBIArchive) -> Iterator[Flask]:
    app = make_app(uri, tmp_path, ibi, PROPAGATE_EXCEPTIONS=True, IBI_ARCHIVE_NAME="Acervo & Cia")
    archive_of(app).init()
    yield app
    close(app)


@pytest.fixture
def late_app(app: Flask, uri: str, tmp_path: Path, clock: Clock) -> Iterator[Flask]:
    """Another server of the same Archive, whose clock is slow by half a minute."""
    late_app = make_app(uri, tmp_path, IBIArchive(clock=lambda: clock() - timedelta(seconds=30)))
    yield late_app
    close(late_app)


@pytest.fixture
def parts_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oai_pmh, "PART", 2)
