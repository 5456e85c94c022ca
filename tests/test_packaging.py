"""The distributions: what they contain, and that they suffice outside of a clone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import textwrap
import zipfile
from configparser import ConfigParser
from importlib.metadata import entry_points
from pathlib import Path

import msgspec
import pytest
from support.commands import ROOT
from support.documentation import copy_of_the_clone
from support.loopback import PATIENCE

#: The lowest and the highest Python that the package supports.
PYTHONS = ("3.10", "3.13")
UV = (sys.executable, "-m", "uv")
SETUP = ConfigParser(interpolation=None)
SETUP.read(ROOT / "setup.cfg", encoding="utf-8")
EXTRAS = list(SETUP["options.extras_require"])


def lines_of(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def test_the_commands_are_entry_points_of_flask() -> None:
    assert lines_of(SETUP["options.entry_points"]["flask.commands"]) == [
        "ibi = flask_ibi_archive.archive.commands:ibi",
        "ibi-resolver = flask_ibi_archive.resolver.commands:ibi_resolver",
    ]
    from flask_ibi_archive.archive.commands import ibi
    from flask_ibi_archive.resolver.commands import ibi_resolver

    for name, group in (("ibi", ibi), ("ibi-resolver", ibi_resolver)):
        [found] = {point for point in entry_points(group="flask.commands") if point.name == name}
        assert found.load() is group


def test_all_files_state_the_version_of_the_newest_changes() -> None:
    changes = (ROOT / "CHANGES.rst").read_text(encoding="utf-8")
    newest = re.findall(r"^(\d+\.\d+\.\d+)(?: \([^)]+\))?\n-+$", changes, re.MULTILINE)[0]
    assert SETUP["metadata"]["version"] == newest
    assert f"\nversion: {newest}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert msgspec.json.decode((ROOT / "codemeta.json").read_bytes())["version"] == newest


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command without the settings of the surrounding tests, and return what it printed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FLASK_")}
    return subprocess.run(
        command, cwd=cwd, env=kept, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def run_well(*command: str | Path, cwd: Path) -> str:
    done = run(*command, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an sdist, the wheel that was built from it, and the copy of the clone."""
    folder = tmp_path_factory.mktemp("dist")
    run_well(*UV, "build", "--quiet", "--out-dir", folder, cwd=copy_of_the_clone(folder))
    return folder


def find_wheel(distributions: Path) -> Path:
    [wheel] = distributions.glob("*.whl")
    return wheel


@pytest.mark.slow
def test_the_sdist_contains_the_files_of_the_repository(distributions: Path) -> None:
    [sdist] = distributions.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {member.name.partition("/")[2] for member in archive if member.isfile()}
    made = {name for name in names if ".egg-info/" in name} | {"PKG-INFO"}
    tree = distributions / "flask_ibi_archive"
    assert names - made == {
        path.relative_to(tree).as_posix()
        for path in tree.rglob("*")
        if path.is_file() and ".egg-info" not in str(path) and path.name != ".gitignore"
    }


@pytest.mark.slow
def test_the_wheel_contains_code_and_data_and_nothing_else(distributions: Path) -> None:
    tree = distributions / "flask_ibi_archive"
    with zipfile.ZipFile(find_wheel(distributions)) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    package = {path.relative_to(tree) for path in tree.glob("flask_ibi_archive/**/*")}
    migrations = {path.relative_to(tree) for path in tree.glob("migrations/**/*")}
    expected = package | {Path("flask_ibi_archive", path) for path in migrations}
    compiled = {path.with_suffix(".mo") if path.suffix == ".po" else path for path in expected}
    assert names == {path.as_posix() for path in compiled if path.suffix}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "extra"), [(PYTHONS[0], ""), *((PYTHONS[-1], extra) for extra in ["", *EXTRAS])]
)
def test_a_repository_needs_only_the_wheel(
    distributions: Path, version: str, extra: str, tmp_path: Path
) -> None:
    """In an empty folder: the snippet of the README, a page in Portuguese, and the check."""
    made = run(*UV, "venv", "--no-python-downloads", "--python", version, cwd=tmp_path)
    if made.returncode and not os.environ.get("CI"):
        pytest.skip(f"Python {version} is not installed")
    wheel = f"{find_wheel(distributions)}[{extra}]" if extra else find_wheel(distributions)
    run_well(*UV, "pip", "install", "--python", ".venv/bin/python", wheel, cwd=tmp_path)

    readme = (ROOT / "README.rst").read_text(encoding="utf-8")
    [snippet] = re.findall(r"code-block:: python\n\n((?:    .*\n|\n)+)", readme)
    (tmp_path / "app.py").write_text(textwrap.dedent(snippet))
    (tmp_path / "rain.pdf").write_bytes(b"%PDF-1.4")
    run_well(".venv/bin/flask", "ibi", "init", cwd=tmp_path)
    url = run_well(".venv/bin/flask", "deposit", cwd=tmp_path)
    assert url.startswith("http://localhost:5000/")
    page = (
        "import app\n"
        "headers = {'Accept-Language': 'pt'}\n"
        "print(app.app.test_client().get('/ibi/statistics', headers=headers).text)\n"
    )
    assert "Estatísticas" in run_well(".venv/bin/python", "-c", page, cwd=tmp_path)
    checked = run(".venv/bin/flask", "ibi", "check", cwd=tmp_path).stdout.splitlines()
    # no server runs, and the resolver may be out of reach
    failed = {line.split(":")[0] for line in checked if not line.startswith(("ok", "WARN"))}
    assert checked
    assert failed <= {"FAIL address", "FAIL resolver"}
    shutil.rmtree(tmp_path / ".venv")  # hundreds of megabytes, which pytest would keep
