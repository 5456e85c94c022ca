"""Standard input, output and error of the commands, their progress bars and passwords.

A password is read from a file, from standard input or from a hidden prompt. It is never an
argument, because other users of the computer can see the arguments of a process.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, redirect_stdout, suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any, TextIO

import click


def write(data: str | bytes, *, nl: bool = True) -> None:
    """Write data to standard output.

    :raises ClickException: if standard output cannot be written.
    """
    try:
        click.echo(data, nl=nl)
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise  # the reader has closed the pipe; click then ends the command without a message
        _discard(sys.stdout)
        raise click.ClickException(
            f"standard output can't be written: {error.strerror or error}"
        ) from error


def _discard(stream: TextIO) -> None:
    """Discard the unwritten data of a broken stream. Otherwise Python fails at exit."""
    with suppress(OSError), Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


def write_json(value: Any) -> None:
    """Write a value to standard output as JSON."""
    write(json.dumps(value, ensure_ascii=False, indent=2))


def write_json_list(values: Iterable[Any]) -> None:
    """Write values to standard output as a JSON list. Each value is written immediately."""
    separator = "["
    for value in values:
        write(f"{separator}\n{json.dumps(value, ensure_ascii=False)}", nl=False)
        separator = ","
    write("\n]" if separator == "," else "[]")


def write_table(columns: Sequence[str], rows: Iterable[Mapping[str, Any]], as_json: bool) -> None:
    """Write rows to standard output: as a JSON list, or as a heading and lines with tabs."""
    from flask_ibi_archive.server.web.texts import gettext

    if as_json:
        write_json_list(rows)
        return
    rows = iter(rows)
    first = [*islice(rows, 1)]  # an error precedes the heading
    write("\t".join(map(gettext, columns)))
    for row in chain(first, rows):
        write("\t".join("" if row[name] is None else str(row[name]) for name in columns))


def say(text: str) -> None:
    """Write a line to standard error. If the line cannot be written, it is lost."""
    try:
        click.echo(text, file=sys.stderr)
    except OSError:
        _discard(sys.stderr)


def warn(text: str) -> None:
    """Write a warning to standard error."""
    from flask_ibi_archive.server.web.texts import gettext

    say(gettext("Warning: {text}", text=text))


class Bars(ExitStack):
    """The progress bars of a command, one for each stage, if standard error is a terminal.

    :param labels: a label for each stage. The keyword is the name of the stage.
    :ivar shown: whether the bars are shown.
    """

    def __init__(self, **labels: str) -> None:
        super().__init__()
        self._labels = labels
        self._stage = ""
        self._bar: Any = None
        self._done = 0
        self.shown: bool = sys.stderr.isatty()

    def show(self, stage: str, done: int, total: int) -> None:
        """Show that ``done`` of the ``total`` steps of a stage are finished."""
        if not self.shown:
            return
        if stage != self._stage:
            self.close()
            self._stage, self._done = stage, 0
            bar = click.progressbar(length=total, label=self._labels[stage], file=sys.stderr)
            self._bar = self.enter_context(bar)
        self._bar.length = total
        self._bar.update(done - self._done)
        self._done = done

    def clear(self) -> None:
        """Clear the line of the bar. Call this before a message is written."""
        if self._bar is not None:
            click.echo("\r\033[K", nl=False, file=sys.stderr)


def confirm(question: str, yes: bool, option: str = "--yes") -> None:
    """Ask the user to confirm a command that deletes data.

    :param yes: whether the user gave the option. The function then asks nothing.
    :param option: the option that answers the question.
    :raises Abort: if the user answers no.
    :raises ClickException: if there is no terminal and the option is missing.
    """
    if yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.ClickException(
            f"{question} Nothing was done, because there is no terminal for the answer; add "
            f"{option}."
        )
    with redirect_stdout(sys.stderr):  # click before 8.3 writes a space to standard output
        click.confirm(question, abort=True, err=True)


def prompt(name: str) -> str:
    """Ask for a secret on the terminal, and return what the user types. It is not shown.

    :param name: the text of the prompt.
    """
    with redirect_stdout(sys.stderr):
        return str(click.prompt(name, hide_input=True, err=True))
