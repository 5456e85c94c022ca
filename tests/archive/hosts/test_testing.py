"""The package flask_ibi_archive.testing in the test suite of a host."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from support.commands import ROOT

from flask_ibi_archive import IBIArchive
from flask_ibi_archive.testing import Reader

CONFTEST = 'pytest_plugins = ["flask_ibi_archive.testing"]\n'

SUITE = '''
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


class TestForgetful(TestSmallRepository):
    """Editions, translations, access and removal are forgotten."""

    without = ()

    def add_item(self, record):
        kept = {name: record[name] for name in ("title", "language", "files") if name in record}
        return super().add_item(kept)

    def remove_item(self, ibi, reason):
        pass


class TestRepeating(TestSmallRepository):
    """All items have the same identifier."""

    first = None

    def add_item(self, record):
        item = super().add_item(record)
        self.first = self.first or item
        return self.first


def test_a_resolver_gets_the_page_of_an_item(ibi_app):
    item = Reader(ibi_app).archive.deposit(title="On rain", language="en")
    [url] = Reader(ibi_app).request_urls(item.ibi)["url"]
    assert "On rain" in Reader(ibi_app).open(url).text
'''


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
def test_the_contract_finds_what_a_host_does_wrong(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    (tmp_path / "test_host.py").write_text(SUITE)
    words = ["-q", "-rf", "--tb=short", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'run'}"]
    output = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=tmp_path,
        # without the options of the suite that contains this test
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
    ).stdout
    assert set(re.findall(r"FAILED test_host.py::(\w+::\w+)", output)) == {
        "TestForgetful::test_a_removed_item_is_deleted_and_has_a_tombstone",
        "TestForgetful::test_an_edition_leads_to_the_next_and_to_the_last",
        "TestForgetful::test_each_translation_leads_to_all_others",
        "TestForgetful::test_nobody_gets_the_files_before_the_day_of_the_embargo",
        "TestForgetful::test_only_users_of_the_networks_get_the_files_of_a_closed_item",
        "TestRepeating::test_a_key_of_one_item_counts_once_and_not_for_another",
        "TestRepeating::test_identifiers_are_unique_and_never_issued_again",
    }, output
