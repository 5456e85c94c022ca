"""The package flask_ibi_archive.testing in the test suite of a host."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from support.commands import ROOT

from flask_ibi_archive import IBIArchive
from flask_ibi_archive.testing import FixedClock, Reader

CONFTEST = 'pytest_plugins = ["flask_ibi_archive.testing"]\n'

USES = """
from flask import Flask

from flask_ibi_archive import IBIArchive
from flask_ibi_archive.testing import CatalogueContract, Reader


class TestSmallRepository(CatalogueContract):
    without = ("editions", "translations", "access", "embargo", "list", "removal")

    def create_app(self, settings):
        app = Flask("host", instance_path=str(self.folder))
        app.config.from_mapping(settings)
        IBIArchive(app, clock=self.clock)
        return app

    def remove_item(self, ibi, reason):
        raise NotImplementedError


def test_a_resolver_finds_an_item(ibi_app, ibi_server, ibi_resolver):
    item = Reader(ibi_app).archive.deposit(title="On rain", language="en")
    ibi_server.serve(ibi_app)
    ibi_resolver.include(ibi_app)
    response = ibi_resolver.get(item.ibi)
    assert response.location.startswith(ibi_server.url)
    assert "On rain" in Reader(ibi_app).open(response.location).text


def test_an_embargo_ends(ibi_settings, ibi_clock, tmp_path):
    app = Flask("host", instance_path=str(tmp_path))
    app.config.from_mapping(ibi_settings)
    IBIArchive(app, clock=ibi_clock)
    reader = Reader(app)
    reader.archive.init()
    ibi = reader.archive.deposit(title="On rain", embargo="2026-03-02").ibi
    assert reader.request_urls(ibi)["contenttype"] == ("Metadata",)
    ibi_clock.advance(days=1)
    assert reader.request_urls(ibi)["contenttype"] == ("Data",)
    reader.archive.database.close()
"""

FAULTS = '''
from datetime import datetime, timezone

from flask import Flask

from flask_ibi_archive import IBIArchive, RecordCatalogue
from flask_ibi_archive.testing import CatalogueContract


class Catalogue(RecordCatalogue):
    def __init__(self):
        self.shelf = []

    def record(self, ibi):
        return next((one for one in self.shelf if ibi in (one["rep"], one["ibip"])), None)

    def records(self):
        return self.shelf


class TestForgetful(CatalogueContract):
    """Editions, translations, access and removal are not in the catalogue."""

    def create_app(self, settings):
        app = Flask("host", instance_path=str(self.folder))
        app.config.from_mapping(settings)
        self.catalogue = Catalogue()
        IBIArchive(app, catalogue=self.catalogue, clock=self.clock)
        return app

    def add_item(self, record):
        minted = self.archive.mint()[0]
        given = {name: record[name] for name in ("title", "language", "files") if name in record}
        now = datetime.now(timezone.utc)
        self.catalogue.shelf.append(
            {"rep": minted.rep, "ibip": minted.ibip, "timestamp": now, **given}
        )
        return minted.ibi

    def remove_item(self, ibi, reason):
        pass


class TestRepeating(TestForgetful):
    """All items have the same identifier."""

    without = ("editions", "translations", "access", "embargo", "removal")

    def add_item(self, record):
        ibi = super().add_item(record)
        first = self.catalogue.shelf[0]
        self.catalogue.shelf[-1].update(rep=first["rep"], ibip=first["ibip"])
        return first["ibip"]
'''


def run_suite(folder: Path, text: str) -> str:
    """Run the test suite of a host, and return the output of pytest."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    (folder / "test_host.py").write_text(text)
    words = ["-q", "-rf", "--tb=short", "-p", "no:cacheprovider", f"--basetemp={folder / 'run'}"]
    # without the options of the suite that contains this test
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""}
    return subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    ).stdout


def test_nothing_is_written_to_the_instance_folder(
    ibi_settings: dict[str, Any], tmp_path: Path
) -> None:
    app = Flask("host", instance_path=str(tmp_path / "instance"))
    app.config.from_mapping(ibi_settings)
    IBIArchive(app)
    archive = Reader(app).archive
    archive.init()
    archive.claims.create_key()
    archive.deposit(title="On rain", files=[__file__])
    assert app.test_client().get("/ibi/claims").status_code == 200
    archive.database.close()
    assert not (tmp_path / "instance").exists()


@pytest.mark.slow
def test_a_host_uses_the_contract_and_the_fixtures(tmp_path: Path) -> None:
    output = run_suite(tmp_path, USES)
    assert re.search(r"^\d+ passed, 7 skipped in", output, re.MULTILINE), output


@pytest.mark.slow
def test_the_contract_finds_what_a_host_does_wrong(tmp_path: Path) -> None:
    output = run_suite(tmp_path, FAULTS)
    failed = set(re.findall(r"FAILED test_host.py::(\w+::\w+)", output))
    assert failed == {
        "TestForgetful::test_a_removed_item_is_deleted_and_has_a_tombstone",
        "TestForgetful::test_an_edition_leads_to_the_next_and_to_the_last",
        "TestForgetful::test_each_translation_leads_to_all_others",
        "TestForgetful::test_nobody_gets_the_files_before_the_day_of_the_embargo",
        "TestForgetful::test_only_users_of_the_networks_get_the_files_of_a_closed_item",
        "TestRepeating::test_a_key_of_one_item_counts_once_and_not_for_another",
        "TestRepeating::test_identifiers_are_unique_and_never_issued_again",
    }, output


def test_the_clock_stands_still_until_it_is_advanced() -> None:
    clock = FixedClock()
    assert clock() == clock() == datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
    clock.advance(90)
    clock.advance(days=1)
    assert clock() - FixedClock()() == timedelta(days=1, seconds=90)
