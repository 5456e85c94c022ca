"""The commands of the README work in an empty clone, and those of the tutorial in a folder."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent

import pytest
from support.commands import ROOT
from support.documentation import Shell, copy_of_the_clone, need_package_index, read
from support.loopback import free_ports

README = (ROOT / "README.rst").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_repository_of_the_readme_deposits_only_when_it_is_told_to(tmp_path: Path) -> None:
    [code] = re.findall(
        r"^[.][.] code-block:: python\n\n((?:(?: {4}.*)?\n)+)", README, re.MULTILINE
    )
    assert len([line for line in code.splitlines() if line]) <= 10
    (tmp_path / "app.py").write_text(dedent(code))
    with Shell(tmp_path) as shell:
        assert re.findall("``(flask .*?)``", README) == [
            "flask ibi init",
            "flask deposit",
            "flask run",
        ]
        assert "trial on one computer" in shell.execute("flask ibi init 2>&1")
        missing = shell.execute("flask deposit 2>&1 || true")
        assert missing == "Error: rain.pdf can't be read: No such file or directory\n"
        (tmp_path / "rain.pdf").write_bytes(b"%PDF-1.4")
        link = shell.execute("flask deposit").strip()
        deposited = link.removeprefix("http://localhost:5000/")
        assert deposited.startswith("LK47B6W8R7/")
        for _ in range(2):
            _, line = shell.execute("flask ibi list 2> /dev/null").splitlines()
            _, ibip, state, _, title = line.split("\t")
            assert (ibip, state, title) == (deposited, "Original", "On rain")
        # the link works, here on another port
        port = free_ports()
        shell.execute(f"flask run --port {port} > server.log 2>&1 & echo $! > pid")
        url = f"http://127.0.0.1:{port}/{deposited}"
        assert shell.execute(f"curl -sL --retry 30 --retry-connrefused {url}") == "%PDF-1.4"
        shell.execute("kill $(cat pid)")


@pytest.mark.slow
def test_the_readme_starts_the_example_and_builds_the_documentation(tmp_path: Path) -> None:
    need_package_index(tmp_path)
    clone = copy_of_the_clone(tmp_path)
    [start] = re.findall(r"^    (python3 -m venv .* -m example_app)$", README, re.MULTILINE)
    guide = (ROOT / "CONTRIBUTING.rst").read_text(encoding="utf-8")
    [build] = re.findall(r"``(pip install [^`]*sphinx-build [^`]*)``", guide)
    with Shell(clone) as shell:
        # other ports, and in the background until the end of the shell
        server = shell.execute(
            f"exec 9< <({start} --port {free_ports()} 2>&1);"
            " while read -ru 9 line; do echo $line; [[ $line =~ Press ]] && break; done"
        )
        [page] = re.findall(r"(http://localhost:\d+/) +the repository", server)
        assert "</html>" in shell.execute(f"curl -s {page}")
        shell.execute(f". .venv/bin/activate; {build}")
        assert (clone / "build/docs/index.html").is_file()


# --- the tutorial --------------------------------------------------------------------------------

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
