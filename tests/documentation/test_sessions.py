"""Each command of the documentation is executed, or is named here with the reason why it is not."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from jinja2 import Environment
from support.commands import ROOT
from support.documentation import FILES, Shell, blocks, commands, pages, read, use_postgresql

from flask_ibi_archive.archive.commands import ibi
from flask_ibi_archive.resolver.commands import ibi_resolver

#: Pages whose commands other tests execute, and these tests.
ELSEWHERE = {
    "tutorial.rst": "documentation/test_readme.py",
    "try-the-example.rst": "example/test_system.py",
    "howto/backup.rst": "documentation/test_backup.py",
    "howto/embed.rst": "archive/hosts/test_embedding.py",
    "howto/migrations.rst": "archive/hosts/test_embedding.py",
    "howto/leave-another-system.rst": "documentation/test_leaving.py",
    "hosts.rst": "installed_hosts/ckan_site/test_site.py",
    "document-registry.rst": "resolver/registry_2008/test_documentation.py",
    "howto/failover.rst": "deployment/test_failover.py",
    "howto/claims.rst": "resolver/test_claims_commands.py",  # with several servers
}
#: Commands that no session executes: the page and the beginning of the command, with the reason.
NOT_EXECUTED = {
    ("howto/run-a-resolver.rst", "pip install"): "the extra is part of the extra test",
    ("howto/upgrade.rst", "pip install"): "test_the_tutorial_installs_the_package does it",
    ("howto/production.rst", "pip install"): "both are part of the extra test",
    ("howto/production.rst", "sudo"): "needs root; systemd-analyze and nginx check the files",
    ("howto/production.rst", "flask ibi check"): "needs the resolver; tests/archive executes it",
    ("howto/reverse-proxy.rst", "sudo"): "needs root; test_reverse_proxy starts both servers",
    ("howto/container.rst", "docker"): "needs an engine; deployment/test_containers.py",
    ("howto/move.rst", "flask ibi offer"): "needs two servers; archive/moving/test_guide.py",
    ("howto/move.rst", "flask ibi accept"): "needs two servers; archive/moving/test_guide.py",
    ("howto/move.rst", "flask ibi check"): "needs the resolver; tests/archive executes it",
    ("howto/upgrade.rst", "flask ibi check"): "needs the resolver; tests/archive executes it",
    ("howto/move.rst", "flask ibi register-archive"): "needs the resolver; run-a-resolver has one",
    ("howto/old-links.rst", "flask ibi alias"): "archive/items/test_same_as.py",
    ("howto/old-links.rst", "curl"): "needs the name of the old host; test_former_links.py",
    ("howto/join-a-resolver.rst", "flask ibi register-archive"): "as before",
}
SESSIONS = [name for name in pages() if name not in ELSEWHERE and commands(name)]


def is_executed(name: str, command: str) -> bool:
    return not any(name == page and command.startswith(start) for page, start in NOT_EXECUTED)


def test_each_reason_belongs_to_a_command() -> None:
    for page, start in NOT_EXECUTED:
        assert any(command.startswith(start) for command in commands(page)), (page, start)
    for page, path in ELSEWHERE.items():
        assert page in pages()
        assert (ROOT / "tests" / path).is_file()


def test_no_command_is_outside_of_a_session() -> None:
    executed = {
        found
        for name in pages()
        for command in commands(name)
        for found in re.findall(r"flask (?:--app \w+ )?(ibi(?:-resolver)? [a-z-]+)", command)
    }
    for name in set(pages()) - set(ELSEWHERE):
        literal = re.findall(r"::\n\n((?:(?: {4}.*)?\n)+)", read(name))
        for text in [*literal, *(one.text for one in blocks(name) if one.language == "sh")]:
            assert not re.search(r"^ *(pip|python3?|curl|sudo|docker) ", text, re.MULTILINE), name
            assert set(re.findall(r"flask (ibi(?:-resolver)? [a-z-]+)", text)) <= executed, name


def test_each_command_in_a_text_exists_with_its_options() -> None:
    texts = {name: read(name) for name in pages()}
    texts |= {name: (ROOT / name).read_text() for name in ("README.rst", "CHANGES.rst")}
    found = 0
    for name, text in texts.items():
        joined = re.sub(r"\s*\n\s+(?=[^`\n]*``)", " ", text)
        for line in re.findall(r"\bflask (?:--app \S+ )?(ibi(?:-resolver)? [^`\n]*)", joined):
            check_command(line, f"{name}: flask {line}")
            found += 1
    assert found > 50


def check_command(line: str, place: str) -> None:
    """Check that a command and its options exist."""
    first, *words = line.replace("=", " ").split()
    command: click.Command = {"ibi": ibi, "ibi-resolver": ibi_resolver}[first]
    while isinstance(command, click.Group) and words and re.fullmatch("[a-z][a-z-]*", words[0]):
        known = command.get_command(click.Context(command), words.pop(0))
        assert known is not None, place
        command = known
    options = {
        option
        for parameter in command.get_params(click.Context(command))
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    given = {word.strip("[].,;)") for word in words if re.match(r"\[?--?[a-z]", word)}
    assert given <= options, (place, given - options)


def test_the_python_and_the_templates_of_the_documentation_are_correct() -> None:
    for name in pages():
        for number, block in enumerate(blocks(name), 1):
            if block.language == "python":
                compile(block.text, f"{name}, block {number}", "exec")
            elif block.language == "jinja":
                Environment().parse(block.text, f"{name}, block {number}")


@pytest.fixture(scope="module")
def finished_tutorial(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """The closed shell of the tutorial: its folder and identifiers."""
    with Shell(tmp_path_factory.mktemp("tutorial")) as shell:
        shell.run(
            "tutorial.rst",
            lambda command: not command.startswith(("python3 -m venv", ". .venv", "pip")),
        )
    return shell


@pytest.mark.slow
@pytest.mark.parametrize("name", SESSIONS)
def test_the_commands_of_a_page_work_as_shown(
    finished_tutorial: Shell, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "reports"
    shutil.copytree(finished_tutorial.folder / "reports", folder)
    app = folder / "app.py"
    ports = finished_tutorial.ports
    with Shell(folder, dict(finished_tutorial.values)) as shell:
        app.write_text(app.read_text().replace(ports["5100"], shell.port("5100")))
        if "createdb" in read(name):
            use_postgresql(shell)
        try:
            expected = [command for command in commands(name) if is_executed(name, command)]
            done = shell.run(name, lambda command: is_executed(name, command))
            assert done == len(expected)
        finally:
            if "createdb" in read(name):
                shell.execute(shell.here("dropdb --force --if-exists repository"))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_systemd_accepts_the_service(tmp_path: Path) -> None:
    service = tmp_path / "repository.service"
    programs = f"{Path(sys.executable).parent}/"
    service.write_text(FILES["repository.service"].replace("/srv/repository/.venv/bin/", programs))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(service)], capture_output=True, text=True
    )
    about = [line for line in done.stderr.splitlines() if "repository.service" in line]
    assert (done.returncode, about) == (0, [])
