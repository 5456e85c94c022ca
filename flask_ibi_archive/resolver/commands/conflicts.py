"""The command ``flask ibi-resolver conflicts``."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import click

from flask_ibi_archive.core.claim import fold_name
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.resolver.commands import get_resolver
from flask_ibi_archive.server.commands import group, terminal

if TYPE_CHECKING:
    from flask_ibi_archive.resolver.conflicts import FoundConflict

#: The columns that the command prints.
COLUMNS = (
    "id", "about", "name", "first_address", "second_address", "found_at", "told_at", "ended_at",
)  # fmt: skip


@click.command("conflicts")
@click.option("--all", "shows_all", is_flag=True, help="Also list the conflicts that have ended.")
@click.option(
    "--prefer",
    metavar="SERVICEIBI",
    type=group.read_ibi,
    help="End the conflicts about NAME in favour of this Archive.",
)
@click.argument("name", required=False)
@group.json_option
def conflicts_command(shows_all: bool, prefer: str | None, name: str | None, as_json: bool) -> None:
    """List conflicts between Archives, or decide about one.

    Two Archives claim the Original of one item, or one alias for two items. The command prints a
    header, then one line for each conflict, the newest first. The columns are separated by tabs.
    The columns are: number of the conflict, "Original" or "alias", name that both claim, addresses
    of the two Archives, and the dates when the conflict was found, when the administrators of both
    Archives were told by e-mail, and when the conflict ended. A conflict ends when one of the two
    claims changes, or one of the two Archives is excluded. With --json, the services and e-mail
    addresses of the Archives are also listed.

    With --prefer and NAME, an IBI or an alias, the command ends the conflicts about NAME: readers
    are led to the Archive with the IBI SERVICEIBI first, until one of the claims changes.

    \b
    Example:
      flask --app example_app:create_resolver ibi-resolver conflicts --all --json
      flask --app example_app:create_resolver ibi-resolver conflicts \\
        --prefer 8JMKD3MGP8W/34PGRBS doi:10.5281/zenodo.1234567
    """
    from flask_ibi_archive.resolver.conflicts import IS_OPEN, list_conflicts, prefer_archive

    if (prefer is None) != (name is None):
        raise click.UsageError("--prefer and NAME are only valid together")
    resolver = get_resolver()
    if prefer is None or name is None:
        conditions = () if shows_all else (IS_OPEN,)
        found = resolver.database.read(lambda connection: list_conflicts(connection, *conditions))
        terminal.write_table(COLUMNS, map(_list_values, found), as_json)
        return
    archive = resolver.registry.find(parse_identifier(prefer).text)
    if archive is None:
        raise StorageError(f"no Archive with the service {prefer} is registered")
    now = datetime.now(timezone.utc)
    with resolver.database.writing() as connection:
        count = prefer_archive(connection, archive.id, fold_name(name), now)
    terminal.say(f"conflicts ended: {count}")


def _list_values(conflict: FoundConflict) -> dict[str, Any]:
    from flask_ibi_archive.resolver.conflicts import describe_conflict

    values = describe_conflict(conflict)
    for name, archive in zip(("first", "second"), conflict.claimants, strict=True):
        values[f"{name}_address"] = archive.address
        values[f"{name}_service"] = archive.service_ibi
        values[f"{name}_email"] = archive.admin_email or archive.email
    return values
