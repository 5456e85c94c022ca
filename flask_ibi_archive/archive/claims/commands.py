"""Commands for claims: claims status, key and rotate."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.server.commands.group import get_archive, json_option, yes_option
from flask_ibi_archive.server.commands.terminal import (
    confirm,
    say,
    standard_output,
    write,
    write_json,
)

if TYPE_CHECKING:
    pass

NO_CLAIMS = "this Archive publishes no claims; flask ibi claims status says why"


@click.group("claims")
def claims_command() -> None:
    """Show the log of claims and its key, or replace the key.

    In the log of claims, the Archive states in signed form what it holds. Resolvers read the log at
    /ibi/claims/checkpoint. The private key is in the folder IBI_CLAIMS_FOLDER, or in the setting
    IBI_CLAIMS_KEY. The database does not contain it: keep a copy in a safe place.

    \b
    Example:
      flask --app example_app ibi claims status
    """


@claims_command.command("status")
@json_option
def status_command(as_json: bool) -> None:
    """Show the number of claims, the pending changes and the key.

    "number" is the number of the log: 1, unless the Archive had to begin a new one. "size" is the
    number of claims in the log, and "pending" that of the changes that it does not contain yet.
    Pending changes become claims when a resolver asks for the next checkpoint. If no claims are to
    be published, the line "disabled" says why. If the administrator must do something, the last
    line says what.

    \b
    Example:
      flask --app example_app ibi claims status
    """
    status = get_archive().claims.status()
    values = asdict(status) | {"folder": str(status.folder)}
    for name in ("begun_at", "signed_at"):
        values[name] = format_timestamp(values[name])
    if as_json:
        write_json(values)
        return
    for name, value in values.items():
        if value is not None:
            write(f"{name.replace('_', ' ')}: {value}")


@claims_command.command("key")
def key_command() -> None:
    """Print the public key with which resolvers check the claims.

    The same key is at /ibi/claims/key. A resolver reads it there when it includes the Archive.

    \b
    Example:
      flask --app example_app ibi claims key
    """
    key = get_archive().claims.verifier()
    if key is None:
        raise click.ClickException(NO_CLAIMS)
    write(key.format())


@claims_command.command("rotate")
@click.option(
    "--new-log", is_flag=True, help="Begin a new log with the new key. Necessary after a fork."
)
@yes_option
def rotate_command(new_log: bool, yes: bool) -> None:
    """Replace the private key, for example because others may know it.

    Prints the new public key. Resolvers do not accept claims with the new key until you run flask
    ibi register-archive. Until then, they ask the Archive for each item, as before it had claims.

    A log that has forked can't be continued. With --new-log, the Archive claims all its items again
    in a new log, with another name.

    \b
    Example:
      flask --app example_app ibi claims rotate
      flask --app example_app ibi claims rotate --new-log
    """
    archive = get_archive()
    standard_output()
    if not archive.claims.is_enabled:
        raise click.ClickException(NO_CLAIMS)
    confirm("Replace the key of the claims? Resolvers must then include the Archive again.", yes)
    write(archive.claims.rotate(new_log).format())
    say("now run: flask ibi register-archive")
