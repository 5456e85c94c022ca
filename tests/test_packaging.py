"""The distribution (the wheel) contains all packages and all data files."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from support.archives import SERVICE
from support.commands import ROOT
from support.loopback import PATIENCE

SHIPPED = ("flask_ibi_archive", "migrations")
#: The app of a repository that uses the installed package.
HOST = """
from flask import Flask
from flask_ibi_archive import IBIArchive

app = Flask(__name__)
app.config.from_prefixed_env()
IBIArchive(app)
"""


@pytest.fixture(scope="module")
def setup() -> configparser.ConfigParser:
    """The contents of setup.cfg."""
    found = configparser.ConfigParser(interpolation=None)
    found.read(ROOT / "setup.cfg", encoding="utf-8")
    return found


def lines_of(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def packages() -> Iterator[str]:
    """Yield the name of each package in the folders of the distribution."""
    for top in SHIPPED:
        for path in (ROOT / top).rglob("__init__.py"):
            name = ".".join(path.parent.relative_to(ROOT).parts)
            yield f"flask_ibi_archive.{name}" if top == "migrations" else name


def data_files() -> set[str]:
    """Return the paths, in the installed package, of all files that are not code."""
    found = set()
    for top in SHIPPED:
        for path in (ROOT / top).rglob("*"):
            if path.is_file() and path.suffix not in (".py", ".pyc"):
                name = path.relative_to(ROOT).as_posix()
                found.add(f"flask_ibi_archive/{name}" if top == "migrations" else name)
    return found


def test_every_folder_with_code_is_a_package_of_the_distribution(
    setup: configparser.ConfigParser,
) -> None:
    named = lines_of(setup["options"]["packages"])
    assert len(named) == len(set(named))
    assert set(named) == set(packages())
    for top in SHIPPED:
        for path in (ROOT / top).rglob("*.py"):
            assert (path.parent / "__init__.py").is_file(), path


def test_the_commands_are_entry_points_of_flask(setup: configparser.ConfigParser) -> None:
    assert lines_of(setup["options.entry_points"]["flask.commands"]) == [
        "ibi = flask_ibi_archive.archive.commands:ibi",
        "ibi-resolver = flask_ibi_archive.resolver.commands:ibi_resolver",
    ]
    from flask_ibi_archive.archive.commands import ibi
    from flask_ibi_archive.resolver.commands import ibi_resolver

    for name, group in (("ibi", ibi), ("ibi-resolver", ibi_resolver)):
        [found] = {point for point in entry_points(group="flask.commands") if point.name == name}
        assert found.load() is group


def test_the_version_is_the_newest_one_in_the_changes(setup: configparser.ConfigParser) -> None:
    changes = (ROOT / "CHANGES.rst").read_text(encoding="utf-8")
    newest = re.findall(r"^(\d+\.\d+\.\d+)(?: \([^)]+\))?\n-+$", changes, re.MULTILINE)[0]
    assert setup["metadata"]["version"] == newest


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel, built from a copy of the tree."""
    folder = tmp_path_factory.mktemp("wheel")
    tree = folder / "tree"
    tree.mkdir()
    for top in SHIPPED:
        shutil.copytree(ROOT / top, tree / top, ignore=shutil.ignore_patterns("__pycache__"))
    for name in (
        "setup.cfg",
        "pyproject.toml",
        "MANIFEST.in",
        "README.rst",
        "CHANGES.rst",
        "LICENSE",
    ):
        shutil.copy(ROOT / name, tree)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--retries", "1"]
    done = subprocess.run(
        [*pip, "--no-deps", "-w", str(folder), str(tree)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    if done.returncode and not os.environ.get("CI"):
        for message in ("No module named pip", "No matching distribution found for setuptools"):
            if message in done.stdout + done.stderr:
                pytest.skip(f"no wheel can be built here: {message}")
    assert done.returncode == 0, done.stdout + done.stderr
    [built] = folder.glob("*.whl")
    return built


@pytest.mark.slow
def test_the_wheel_is_complete_and_sufficient_for_a_host(wheel: Path, tmp_path: Path) -> None:
    """One test, so that parallel test processes build the wheel only once."""
    check_contents(wheel)
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    check_host(site, tmp_path / "host")


def check_contents(wheel: Path) -> None:
    """Check that a wheel contains all code and all data files."""
    with zipfile.ZipFile(wheel) as archive:
        contained = {name for name in archive.namelist() if ".dist-info/" not in name}
    code = {
        f"{'flask_ibi_archive/' if top == 'migrations' else ''}{path.relative_to(ROOT).as_posix()}"
        for top in SHIPPED
        for path in (ROOT / top).rglob("*.py")
    }
    assert contained == code | data_files()


def check_host(site: Path, host: Path) -> None:
    """Check that an app can initialise and serve an Archive with the installed package alone."""
    host.mkdir()
    (host / "app.py").write_text(HOST)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("FLASK_")}
    settings = {
        "PYTHONPATH": str(site),
        "FLASK_SECRET_KEY": "a secret for tests",
        "FLASK_IBI_ARCHIVE_SERVICE_IBI": SERVICE,
    }
    code = (
        "import flask_ibi_archive, app\n"
        "from flask.cli import cli\n"
        "cli.main(['ibi', 'init'], standalone_mode=False)\n"
        "print(flask_ibi_archive.__file__)\n"
        "print(app.app.test_client().get('/ibi/health/ready').status_code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=host,
        env={**inherited, **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    created, location, ready = done.stdout.splitlines()
    assert (created, ready) == (SERVICE, "200")
    assert Path(location).is_relative_to(site)
