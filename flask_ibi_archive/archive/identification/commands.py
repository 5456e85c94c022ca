"""Commands for the keys of programs: api-key create, list and revoke."""

from __future__ import annotations

from datetime import timedelta

import click

from flask_ibi_archive.server.commands.group import get_archive, json_option, parse_period
from flask_ibi_archive.server.commands.terminal import say, write, write_table


def _parse_period(
    context: click.Context, parameter: click.Parameter, value: str
) -> timedelta | None:
    return None if value == "never" else parse_period(value, ", or never")


def _parse_scopes(context: click.Context, parameter: click.Parameter, value: str) -> list[str]:
    from flask_ibi_archive.archive.identification import keys

    scopes = [scope.strip() for scope in value.split(",")]
    for scope in scopes:
        if scope not in keys.SCOPES:
            raise click.BadParameter(f"{scope!r} is not one of {', '.join(keys.SCOPES)}")
    if scopes == ["all"]:
        raise click.BadParameter("all says whose items; add mint, deposit or both")
    return scopes


def _parse_name(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if not value.isprintable() or not 1 <= len(value.strip()) <= 100:
        raise click.BadParameter("a name has 1 to 100 characters on one line")
    return value.strip()


@click.group("api-key")
def api_key_command() -> None:
    """Create, list and revoke the keys of programs.

    A program with a key gets identifiers from /ibi/identifiers, if IBI_IDENTIFICATION is true.

    \b
    Example:
      flask --app example_app ibi api-key create --name ojs --may mint,deposit --expires 1y
    """


@api_key_command.command("create")
@click.option("--name", required=True, callback=_parse_name, help="The name of the program.")
@click.option(
    "--may",
    "scopes",
    required=True,
    callback=_parse_scopes,
    help="What the program may do, separated by commas: mint (issue and reserve identifiers), "
    "deposit (deposit, update and withdraw items), all (see and change also what other programs "
    "made).",
)
@click.option(
    "--expires",
    "period",
    default="1y",
    show_default=True,
    callback=_parse_period,
    help="When the key expires: a number of days (d), weeks (w), months (m), years (y); or never.",
)
def create_command(name: str, scopes: list[str], period: timedelta | None) -> None:
    """Create a key and print it. The key cannot be shown again.

    \b
    Example:
      flask --app example_app ibi api-key create --name ojs --may mint,deposit --expires 1y
    """
    from flask_ibi_archive.archive.identification import keys

    archive = get_archive()
    now = archive.clock()
    expires_at = None if period is None else now + period
    write(keys.create_key(archive.database, archive.served().id, name, scopes, now, expires_at))
    say("Give the key to the program now; it cannot be shown again.")
    if not archive.config.identification:
        say("Set IBI_IDENTIFICATION to true, so that the Archive answers programs.")


@api_key_command.command("list")
@json_option
def list_command(as_json: bool) -> None:
    """List the keys, but not their secret texts.

    \b
    Example:
      flask --app example_app ibi api-key list
    """
    from flask_ibi_archive.archive.identification import keys
    from flask_ibi_archive.core.identifiers.dates import format_timestamp

    archive = get_archive()
    now = archive.clock()
    rows = [
        {
            "name": key.name,
            "may": ",".join(key.scopes.split()),
            "created_at": format_timestamp(key.created_at),
            "expires_at": format_timestamp(key.expires_at),
            "status": keys.find_status(key, now),
        }
        for key in keys.list_keys(archive.database, archive.served().id)
    ]
    write_table(("name", "may", "created_at", "expires_at", "status"), rows, as_json)


@api_key_command.command("revoke")
@click.argument("name")
def revoke_command(name: str) -> None:
    """Revoke the key of a program. What the program has made remains.

    \b
    Example:
      flask --app example_app ibi api-key revoke ojs
    """
    from flask_ibi_archive.archive.identification import keys

    archive = get_archive()
    keys.revoke_key(archive.database, archive.served().id, name, archive.clock())
    write(f"revoked {name}")
