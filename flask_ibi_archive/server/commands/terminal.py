"""Standard input, output and error of the commands, their progress bars and passwords.

A password is read from a file, from standard input or from a hidden prompt. It is never an
argument, because other users of the computer can see the arguments of a process.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, redirect_stdout, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO, TextIO

import click


def standard_input() -> BinaryIO:
    """Return standard input.

    :raises ClickException: if standard input is closed.
    """
    if sys.stdin is None:
        raise click.ClickException("standard input can't be read: it is closed")
    return sys.stdin.buffer


def standard_output() -> TextIO:
    """Return standard output.

    A command that changes data calls this function before the change. If nobody can read the
    output, the command then changes nothing.

    :raises ClickException: if standard output is closed.
    """
    if sys.stdout is None:
        raise click.ClickException("standard output can't be written: it is closed")
    return sys.stdout


def write(data: str | bytes, *, nl: bool = True) -> None:
    """Write data to standard output.

    :raises ClickException: if standard output cannot be written.
    """
    stream = standard_output()
    try:
        click.echo(data, file=stream, nl=nl)
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise  # the reader has closed the pipe; click then ends the command without a message
        _discard(stream)
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
    if as_json:
        write_json_list(rows)
        return
    write("\t".join(columns))
    for row in rows:
        write("\t".join("" if row[name] is None else str(row[name]) for name in columns))


def say(text: str) -> None:
    """Write a line to standard error. If the line cannot be written, it is lost."""
    try:
        click.echo(text, file=sys.stderr)
    except OSError:
        _discard(sys.stderr)


def warn(text: str) -> None:
    """Write a warning to standard error."""
    say(f"Warning: {text}")


class Bars(ExitStack):
    """Shows a progress bar for each stage of a command, if standard error is a terminal.

    :param labels: a label for each stage. The keyword is the name of the stage.
    :ivar shown: whether the bars are shown.
    """

    def __init__(self, **labels: str) -> None:
        super().__init__()
        self._labels = labels
        self._stage = ""
        self._bar: Any = None
        self._done = 0
        self.shown = sys.stderr.isatty()

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


def prompt(name: str, *, is_new: bool = False) -> str:
    """Return a secret that the user types on the terminal. It is not shown.

    :param name: the text of the prompt.
    :param is_new: True if the user must type it twice.
    """
    with redirect_stdout(sys.stderr):
        return str(click.prompt(name, hide_input=True, confirmation_prompt=is_new, err=True))


Command = Callable[..., Any]


def _password_option(name: str, help: str) -> Callable[[Command], Command]:
    return click.option(
        name,
        type=click.Path(dir_okay=False, allow_dash=True),
        metavar="FILE",
        help=f"{help} The first line of FILE; - reads a line of standard input.",
    )


password_option = _password_option("--password-file", "The password of the actor.")
new_password_option = _password_option("--new-password-file", "The new password.")


def read_password(path: str | None, name: str = "Password", *, is_new: bool = False) -> str:
    """Return a password from a file, or from a hidden prompt if there is no file.

    :param path: the path of the file; "-" means standard input.
    :param name: the text of the prompt.
    :param is_new: True if the prompt asks for the password twice.
    :raises ClickException: if there is no password. The message does not show a password.
    """
    if path is None:
        if sys.stdin is None or not sys.stdin.isatty():
            option = "--new-password-file" if name == "New password" else "--password-file"
            raise click.ClickException(f"there is no terminal for the password; use {option}")
        return prompt(name, is_new=is_new)
    where = "standard input" if path == "-" else path
    try:
        if path == "-":
            line = _read_line(standard_input())
        else:
            with click.open_file(path, "rb") as file:
                line = _read_line(file)
        password = line.decode()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise click.ClickException(f"{where} can't be read: {reason}") from None
    except UnicodeDecodeError:
        raise click.ClickException(f"the first line of {where} is not UTF-8 text") from None
    if not password:
        raise click.ClickException(f"the first line of {where} is empty; it should be the password")
    return password


def _read_line(stream: IO[bytes]) -> bytes:
    # 4096 bytes are more than the longest password; a device could send an endless line
    return stream.readline(4096).removesuffix(b"\n").removesuffix(b"\r")
