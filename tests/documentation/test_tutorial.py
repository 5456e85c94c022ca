"""The tutorial, executed in an empty folder, results in an item that resolves."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.documentation import Shell, copy_of_the_clone, need_package_index, read

#: The commands that install the package. The package is installed where the tests run.
INSTALLATION = ("python3 -m venv", ". .venv/bin/activate", "pip install")


@pytest.mark.slow
def test_the_commands_and_files_of_the_tutorial_work_as_shown(tmp_path: Path) -> None:
    with Shell(tmp_path) as shell:
        assert shell.run("tutorial.rst", lambda command: not command.startswith(INSTALLATION)) > 10
        assert "It rained" in (tmp_path / "reports/rain.txt").read_text()
        for command in ("rename", "withdraw"):
            said = shell.execute(f"flask {command} 733NF838W/2222222 text 2>&1 || true")
            assert said == "Error: there is no report 733NF838W/2222222\n"


def test_the_example_and_the_tutorial_run_at_the_same_time() -> None:
    ports = {
        name: {*re.findall(r"(?:localhost:|--port )(\d+)", read(name))}
        for name in ("tutorial.rst", "howto/run-a-resolver.rst", "try-the-example.rst")
    }
    example = ports.pop("try-the-example.rst")
    assert all(found and not found & example for found in ports.values())


@pytest.mark.slow
def test_the_tutorial_installs_the_package(tmp_path: Path) -> None:
    """The whole tutorial, with a new virtual environment. This needs a package index."""
    need_package_index(tmp_path)
    copy_of_the_clone(tmp_path)
    with Shell(tmp_path) as shell:
        shell.run("tutorial.rst")
