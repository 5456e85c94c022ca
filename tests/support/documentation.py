"""Reads the pages of the documentation, and runs their sessions in a shell.

A page contains files (code blocks with a caption, which is the name of the file) and sessions
(``code-block:: console``: commands after ``$``, and the output that follows each).
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Timer

import pytest
from docutils import nodes
from docutils.core import publish_doctree
from sqlalchemy import make_url
from sybil import Document
from sybil.parsers.rest.lexers import DirectiveLexer

from support.commands import ROOT
from support.databases import POSTGRESQL, why_no_postgresql
from support.loopback import free_port

DOCS = ROOT / "docs"
BLOCKS = DirectiveLexer("code-block")
#: The identifiers in the output of a page; those of a run differ.
IBI = re.compile(
    r"[2-9A-HJ-NP-U]{4,}W[2-9A-HJ-NP-U]*/[2-9A-HJ-NP-UW]{5,}|example\.org/[\w.]+/\d{4}/[\d.]+\d"
)
MARK = "-- end of the command --"
#: What a server prints when it accepts connections.
SERVING = "Running on|Listening at"
#: After so many seconds, a session that hangs is killed.
PATIENCE = 300


@dataclass(frozen=True)
class Block:
    """A code block: its language, its caption ("" if it has none) and its text."""

    language: str
    caption: str
    text: str

    def commands(self) -> Iterator[tuple[str, str]]:
        """Yield each command of a session with the output that follows it."""
        command, output = "", ""
        for line in self.text.splitlines(keepends=True):
            if line.startswith("$ "):
                if command:
                    yield command.strip(), output
                command, output = line[2:], ""
            elif line.startswith("> "):
                command += line[2:]
            else:
                output += line
        assert command, f"a session does not begin with a command: {self.text}"
        yield command.strip(), output


def pages() -> list[str]:
    """Return the names of all pages, such as ``howto/embed.rst``."""
    return sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.rst"))


def read(name: str) -> str:
    """Return the text of a page."""
    return (DOCS / name).read_text(encoding="utf-8")


def blocks(name: str) -> list[Block]:
    """Return the code blocks of a page."""
    regions = [region.lexemes for region in BLOCKS(Document(read(name), name))]
    return [
        Block(one["arguments"], one["options"].get("caption", ""), one["source"].strip() + "\n")
        for one in regions
    ]


def commands(name: str) -> list[str]:
    """Return the commands of all sessions of a page."""
    return [
        command
        for block in blocks(name)
        if block.language == "console"
        for command, _ in block.commands()
    ]


def rows(text: str, heading: str) -> list[list[str]]:
    """Return the cells (as in the source) of the rows of all tables with a first heading."""
    found: list[list[str]] = []
    # Sphinx knows more directives and roles
    settings = {"report_level": 5, "halt_level": 5, "_disable_config": True}
    for table in publish_doctree(text, settings_overrides=settings).findall(nodes.table):
        names, *rows = (
            [" ".join(part.rawsource for part in cell.findall(nodes.paragraph)) for cell in row]
            for row in table.findall(nodes.row)
        )
        if names[0] == heading:
            found += [[cell.replace("\n", " ") for cell in row] for row in rows]
    assert found, f"no table has the heading {heading}"
    return found


#: The files of all pages by name: the code blocks with a caption.
FILES = {block.caption: block.text for name in pages() for block in blocks(name) if block.caption}


def copy_of_the_clone(folder: Path) -> Path:
    """Copy the files of the repository, without what git ignores, and return the new folder."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            copy = folder / "flask_ibi_archive" / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy)
    return folder / "flask_ibi_archive"


def need_package_index(folder: Path) -> None:
    """Skip the test if pip can download no package here; CI must be able to."""
    download = ["pip", "download", "-q", "--no-deps", "-d", str(folder / "wheels"), "blinker"]
    done = subprocess.run(
        [sys.executable, "-m", *download], capture_output=True, text=True, check=False
    )
    if done.returncode:
        assert not os.environ.get("CI"), done.stderr
        pytest.skip("there is no package index")


@dataclass
class Shell:
    """A shell that runs the sessions of pages in a folder.

    :param folder: the current folder at the beginning.
    :param values: the identifiers on the pages, with those of this run.
    :param ports: the ports on the pages, with those of this run.
    :param words: other texts on the pages, with those of this run.
    """

    folder: Path
    values: dict[str, str] = field(default_factory=dict)
    ports: dict[str, str] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)

    def __enter__(self) -> Shell:
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("FLASK_", "IBI_", "PYTEST_", "COV_"))
        }
        self.process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=self.folder,
            env={
                **inherited,
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                "HOME": str(self.folder),
                "NO_PROXY": "*",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.timer = Timer(PATIENCE, self.kill)
        self.timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.timer.cancel()
        self.kill()
        self.process.communicate()

    def kill(self) -> None:
        """End the shell and the servers that it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def port(self, shown: str) -> str:
        """Return the port of this run for the port on a page."""
        return self.ports.setdefault(shown, str(free_port()))

    def here(self, text: str) -> str:
        """Return a text of a page with the ports, identifiers and words of this run."""
        for shown, word in self.words.items():
            text = text.replace(shown, word)
        text = re.sub(
            r"(localhost:|127\.0\.0\.1:|--port )(\d{4})\b",
            lambda found: found[1] + self.port(found[2]),
            text,
        )
        return IBI.sub(lambda found: self.values.get(found[0], found[0]), text)

    def run(self, name: str, is_executed: Callable[[str], bool] = lambda _: True) -> int:
        """Write the files of a page and run its commands, in their order.

        :returns: the number of commands that were executed.
        """
        done = 0
        for block in blocks(name):
            if block.language == "console":
                for command, output in block.commands():
                    if is_executed(command):
                        self.check(command, output)
                        done += 1
            elif block.caption and "/" not in block.caption:
                folder = Path(self.execute("pwd").strip())
                (folder / block.caption).write_text(self.here(block.text), encoding="utf-8")
        return done

    def check(self, command: str, shown: str) -> None:
        """Run a command, and compare its output with the output on the page if there is one."""
        if re.match(r"flask (.* )?run( |$)|gunicorn (?!--check)", command):
            command = f"exec 9< <(exec {command} 2>&1); while read -ru 9 line; do "
            command += f"[[ $line =~ {SERVING.replace(' ', '.')} ]] && break; done"
        output = self.execute(self.here(command))
        if shown:
            # an identifier of the page that is new becomes known here
            new = [ibi for ibi in IBI.findall(shown) if ibi not in self.values]
            pattern = re.escape(self.here(shown).strip()).replace(r"\.\.\.", ".*?")
            for ibi in dict.fromkeys(new):
                pattern = pattern.replace(re.escape(ibi), f"({IBI.pattern})", 1)
            found = re.fullmatch(pattern, output.strip(), re.DOTALL)
            assert found, f"$ {command}\n{output}\ninstead of\n{self.here(shown)}"
            for ibi, actual in zip(dict.fromkeys(new), found.groups(), strict=True):
                # host or IP are the same in each run, but not the port and the date
                assert re.split(r"W|\.\d|/20", actual)[0] in ibi
                self.values[ibi] = actual

    def execute(self, command: str) -> str:
        """Run a command and return its output; the exit status must be 0."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{command}\nstatus=$?; echo; echo '{MARK}' $status\n")
        self.process.stdin.flush()
        output = ""
        for line in self.process.stdout:
            if line.startswith(MARK):
                assert line.split()[-1] == "0", f"$ {command}\n{output}"
                return output.removesuffix("\n")
            output += line
        raise AssertionError(f"$ {command}\n{output}\nthe shell has ended")


def use_postgresql(shell: Shell) -> None:
    """Let the session of the page create a database with a unique name."""
    reason = why_no_postgresql() or (None if shutil.which("createdb") else "there is no createdb")
    if reason:
        pytest.skip(reason)
    url = make_url(POSTGRESQL)
    for name in ("host", "port", "username", "password"):
        if value := getattr(url, name):
            key = {"username": "PGUSER"}.get(name, f"PG{name.upper()}")
            shell.execute(f"export {key}={value}")
    shell.words["repository"] = f"ibi_test_{uuid.uuid4().hex}"
