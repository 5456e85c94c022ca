"""The life of an item after its deposit: copy, transfer, delete."""

from __future__ import annotations

import click
from flask.cli import with_appcontext

from flask_ibi_archive.cli.group import (
    confirm,
    standard_output,
    the_archive,
    write,
    yes_option,
)
from flask_ibi_archive.cli.items import find_item
from flask_ibi_archive.cli.parameters import read_ibi


@click.command("copy")
@click.argument("ibi", type=read_ibi)
@click.option(
    "--to",
    type=read_ibi,
    metavar="SERVICEIBI",
    help="The Archive that gets the copy, by the IBI of its service. Without it this one gets a copy of "
    "what another one holds.",
)
@with_appcontext
def copy_command(ibi: str, to: str | None) -> None:
    """Copy an item to another Archive of the database.

    A copy that is there already is brought up to date.

    \b
    Example:
      flask --app example_app ibi copy 8JMKD3MGP8W/35MME4E \\
          --to sid.inpe.br/mtc-m19@80/2009/08.21.17.02
    """
    from flask_ibi_archive.identifiers import parse_identifier

    archive = the_archive()
    ibi = parse_identifier(ibi).text
    place = archive.served().service_ibi if to is None else parse_identifier(to).text
    standard_output()
    archive.make_copy(ibi, place if to is not None else None)
    write(f"copied {find_item(archive, ibi).record.identifiers[0]} to {place}")


@click.command("transfer")
@click.argument("ibi", type=read_ibi)
@click.option(
    "--to",
    type=read_ibi,
    required=True,
    metavar="SERVICEIBI",
    help="The Archive that gets the item, by the IBI of its service.",
)
@click.option("--keep-copy", is_flag=True, help="Leave a copy here instead of a tombstone.")
@with_appcontext
def transfer_command(ibi: str, to: str, keep_copy: bool) -> None:
    """Transfer an item to another Archive of the database.

    It keeps its identifiers. Here a tombstone remains, or a copy (--keep-copy).

    \b
    Example:
      flask --app example_app ibi transfer 8JMKD3MGP8W/35MME4E \\
          --to sid.inpe.br/mtc-m19@80/2009/08.21.17.02 --keep-copy
    """
    from flask_ibi_archive.identifiers import parse_identifier

    archive = the_archive()
    item = find_item(archive, ibi)
    place = parse_identifier(to).text
    standard_output()
    archive.transfer(ibi, place, keep_copy=keep_copy)
    left = "a copy" if keep_copy else "a tombstone"
    write(f"transferred {item.record.identifiers[0]} to {place}; {left} remains here")


@click.command("delete")
@click.argument("ibi", type=read_ibi)
@click.option("--reason", required=True, help="Why it is removed; everybody can read it.")
@click.option(
    "--citation", metavar="TEXT", help="How to cite it; made from its Dublin Core unless told."
)
@click.option(
    "--successor",
    type=read_ibi,
    metavar="IBI",
    help="The item that takes its place, wherever it is.",
)
@yes_option
@with_appcontext
def delete_command(
    ibi: str, reason: str, citation: str | None, successor: str | None, yes: bool
) -> None:
    """Delete an item and leave a tombstone.

    It can't be brought back: asks for confirmation, and needs --yes where there is no terminal. Its
    identifiers stay with it and are never given again. In its place stands a page that tells when
    and why it was removed (HTTP status 410), how to cite it and what to read instead.

    \b
    Example:
      flask --app example_app ibi delete 8JMKD3MGP8W/35MME4E --reason "Withdrawn by its authors" \\
          --successor 8JMKD3MGP8W/35MRHBE
    """
    if not reason.strip():
        raise click.UsageError("--reason: is empty; whoever asks for the item is told why it went")
    archive = the_archive()
    item = find_item(archive, ibi)
    name = item.record.identifiers[0]
    standard_output()
    title = " ".join(item.title.split())
    about = name if title == name else f"{name} ({title})"
    confirm(f"Remove {about}? It can't be brought back.", yes)
    archive.delete(ibi, reason, citation=citation, successor=successor)
    address = archive.addresses.item(item)
    write(f"deleted {name}; its identifiers stay, and {address} says that it was removed (410)")
