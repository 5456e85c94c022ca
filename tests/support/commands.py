"""Run commands in this process and in separate processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner
from flask import Flask
from flask.cli import ScriptInfo

from flask_ibi_archive.archive.commands import ibi
from support.loopback import PATIENCE

ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True)
class Outcome:
    """The result of a command: its exit status and its output, as text and as bytes."""

    status: int
    out: str
    err: str
    raw: bytes = b""

    @property
    def data(self) -> str:
        """The standard output of a command that succeeded without a warning.

        The persistent URL that mint and add write to standard error is ignored.
        """
        warnings = [line for line in self.err.splitlines() if not line.startswith("persistent URL")]
        assert (self.status, warnings) == (0, [])
        return self.out

    @property
    def lines(self) -> list[str]:
        """The lines of :attr:`data`."""
        # not splitlines(), which also splits at other characters than line feeds
        return self.data.removesuffix("\n").split("\n") if self.data else []

    @property
    def error(self) -> str:
        """The error message of a command that failed and wrote nothing else."""
        assert (self.status, self.out) == (1, "")
        [line] = self.err.splitlines()
        assert line.startswith("Error: ")
        return line.removeprefix("Error: ")

    @property
    def usage(self) -> str:
        """The error message of a command with wrong arguments."""
        assert (self.status, self.out) == (2, "")
        assert self.err.startswith("Usage: ")
        assert "Traceback" not in self.err
        return self.err.splitlines()[-1].removeprefix("Error: ")


#: click before 8.2 mixes both outputs unless it is told not to; then click always separates them.
SEPARATE = {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}


def command(
    app: Flask | Callable[[], Flask],
    *words: Any,
    stdin: bytes | None = None,
    group: click.Group = ibi,
) -> Outcome:
    """Run ``flask ibi WORDS`` with an app, or with the app that a factory returns.

    :param group: another group of commands.
    """
    texts = [str(word) for word in words]
    if isinstance(app, Flask):
        result = app.test_cli_runner(**SEPARATE).invoke(group, texts, input=stdin)
    else:
        info = ScriptInfo(create_app=app)
        result = CliRunner(**SEPARATE).invoke(group, texts, input=stdin, obj=info)
    if not isinstance(result.exception, SystemExit | None):
        raise result.exception
    return Outcome(result.exit_code, result.stdout, result.stderr, result.stdout_bytes)


def show(app: Flask, ibi: str) -> dict[str, Any]:
    """Return an item as the command show prints it."""
    item: dict[str, Any] = json.loads(command(app, "show", ibi, "--json").data)
    return item


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Return the environment of the example app, with its database and files in a folder."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("FLASK_")}
    return {
        **inherited,
        "FLASK_APP": "example_app",
        "FLASK_IBI_DATABASE_URI": f"sqlite:///{folder / 'ibi.sqlite'}",
        "FLASK_IBI_FILES_FOLDER": str(folder / "files"),
        **more,
    }


def process(
    folder: Path, *words: str | bytes, stdin: bytes = b"", cwd: Path = ROOT, **more: str
) -> Outcome:
    """Run ``flask WORDS`` with the example app in a separate process."""
    return python(folder, "-m", "flask", *words, stdin=stdin, cwd=cwd, **more)


def python(
    folder: Path, *words: str | bytes, stdin: bytes = b"", cwd: Path = ROOT, **more: str
) -> Outcome:
    """Run Python in a separate process, with the settings of the example app."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=cwd,
        env=environment(folder, **more),
        input=stdin,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode(), done.stdout)


@contextmanager
def unchanged(*apps: Flask) -> Iterator[None]:
    """Check that the block does not change items, reservations and files of Archives."""
    before = [_everything(app) for app in apps]
    yield
    assert [_everything(app) for app in apps] == before


def _everything(app: Flask) -> tuple[str, str, list[Path]]:
    folder = Path(app.config["IBI_FILES_FOLDER"])
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return command(app, "export").data, command(app, "reserve", "--list", "--json").data, files
