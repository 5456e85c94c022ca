"""The tutorial, executed in an empty folder, results in an item that resolves."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.documentation import Shell, copy_of_the_clone, need_package_index

pytestmark = pytest.mark.one_database
#: The commands that install the package. The package is installed where the tests run.
INSTALLATION = ("python3 -m venv", ". .venv/bin/activate", "pip install")


def test_the_commands_and_files_of_the_tutorial_work_as_shown(tmp_path: Path) -> None:
    with Shell(tmp_path) as shell:
        assert shell.run("tutorial.rst", lambda command: not command.startswith(INSTALLATION)) > 10
        assert "It rained" in (tmp_path / "reports/rain.txt").read_text()


@pytest.mark.slow
def test_the_tutorial_installs_the_package(tmp_path: Path) -> None:
    """The whole tutorial, with a new virtual environment. This needs a package index."""
    need_package_index(tmp_path)
    copy_of_the_clone(tmp_path)
    with Shell(tmp_path) as shell:
        shell.run("tutorial.rst")
