"""The options and prompts of commands that need a password.

A password is read from a file, from standard input or from a hidden prompt. It is never an
argument, because other users of the computer can see the arguments of a process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import IO, Any

import click

from flask_ibi_archive.server.commands.terminal import standard_input

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
        return str(click.prompt(name, hide_input=True, confirmation_prompt=is_new, err=True))
    place = "standard input" if path == "-" else path
    try:
        if path == "-":
            line = _read_line(standard_input())
        else:
            with click.open_file(path, "rb") as file:
                line = _read_line(file)
        password = line.decode()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise click.ClickException(f"{place} can't be read: {reason}") from None
    except UnicodeDecodeError:
        raise click.ClickException(f"the first line of {place} is not UTF-8 text") from None
    if not password:
        raise click.ClickException(f"the first line of {place} is empty; it should be the password")
    return password


def _read_line(stream: IO[bytes]) -> bytes:
    # 4096 bytes are more than the longest password; a device could send an endless line
    return stream.readline(4096).removesuffix(b"\n").removesuffix(b"\r")
