"""The command ``flask ibi-resolver conflicts``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.resolver.commands import get_resolver
from flask_ibi_archive.server.commands import group, terminal

if TYPE_CHECKING:
    from flask_ibi_archive.resolver.old_claims.conflicts import FoundConflict

#: The columns that the command prints.
COLUMNS = (
    "id", "ibi", "first_address", "second_address", "found_at", "told_at", "ended_at",
)  # fmt: skip


@click.command("conflicts")
@click.option("--all", "shows_all", is_flag=True, help="Also list the conflicts that have ended.")
@group.json_option
def conflicts_command(shows_all: bool, as_json: bool) -> None:
    """List the items whose Original two Archives claim.

    The command prints a header, then one line for each conflict, the newest first. The columns are
    separated by tabs. The columns are: number of the conflict, IBI of the item, addresses of the
    two Archives, and the dates when the conflict was found, when the administrators of both
    Archives were told by e-mail, and when the conflict ended. A conflict ends when one of the two
    Archives no longer claims the Original, or is excluded. With --json, the other identifier of the
    item, and the services and e-mail addresses of the Archives are also listed.

    \b
    Example:
      flask --app example_app:create_resolver ibi-resolver conflicts
      flask --app example_app:create_resolver ibi-resolver conflicts --all --json
    """
    from flask_ibi_archive.resolver.old_claims.conflicts import IS_OPEN, list_conflicts

    conditions = () if shows_all else (IS_OPEN,)
    found = get_resolver().database.read(lambda connection: list_conflicts(connection, *conditions))
    terminal.write_table(COLUMNS, map(_list_values, found), as_json)


def _list_values(conflict: FoundConflict) -> dict[str, str | int | None]:
    values: dict[str, str | int | None] = {
        "id": conflict.id,
        "ibi": conflict.ibi,
        "other_ibi": conflict.other_ibi,
        "found_at": format_timestamp(conflict.found_at),
        "told_at": format_timestamp(conflict.told_at),
        "ended_at": format_timestamp(conflict.ended_at),
    }
    for name, archive in zip(("first", "second"), conflict.claimants, strict=True):
        values[f"{name}_service"] = archive.service_ibi
        values[f"{name}_address"] = archive.address
        values[f"{name}_email"] = archive.email
    return values
