"""The commands copy, transfer and delete. They change the state of an item."""

from __future__ import annotations

import click

from flask_ibi_archive.server.commands.group import find_item, get_archive, read_ibi, yes_option
from flask_ibi_archive.server.commands.terminal import confirm, standard_output, write


@click.command("copy")
@click.argument("ibi", type=read_ibi)
@click.option(
    "--to",
    type=read_ibi,
    metavar="SERVICEIBI",
    help="The service IBI of the Archive that gets the copy. Without this option, the item "
    "belongs to another Archive, and this Archive gets the copy.",
)
def copy_command(ibi: str, to: str | None) -> None:
    """Copy an item to another Archive of the database.

    If the other Archive already has a copy, the command updates the copy.

    \b
    Example:
      flask --app example_app ibi copy 8JMKD3MGP8W/35MME4E \\
          --to sid.inpe.br/mtc-m19@80/2009/08.21.17.02
    """
    from flask_ibi_archive.core.identifiers import parse_identifier

    archive = get_archive()
    ibi = parse_identifier(ibi).text
    target = archive.served().service_ibi if to is None else parse_identifier(to).text
    standard_output()
    archive.make_copy(ibi, None if to is None else target)
    write(f"copied {find_item(archive, ibi).record.identifiers[0]} to {target}")


@click.command("transfer")
@click.argument("ibi", type=read_ibi)
@click.option(
    "--to",
    type=read_ibi,
    required=True,
    metavar="SERVICEIBI",
    help="The service IBI of the Archive that gets the item.",
)
@click.option(
    "--keep-copy", is_flag=True, help="Keep a copy in this Archive instead of a tombstone."
)
def transfer_command(ibi: str, to: str, keep_copy: bool) -> None:
    """Transfer an item to another Archive of the database.

    The identifiers of the item do not change. A tombstone remains in this Archive. With
    --keep-copy, a copy remains instead of the tombstone.

    \b
    Example:
      flask --app example_app ibi transfer 8JMKD3MGP8W/35MME4E \\
          --to sid.inpe.br/mtc-m19@80/2009/08.21.17.02 --keep-copy
    """
    from flask_ibi_archive.core.identifiers import parse_identifier

    archive = get_archive()
    item = find_item(archive, ibi)
    target = parse_identifier(to).text
    standard_output()
    archive.transfer(ibi, target, keep_copy=keep_copy)
    remaining = "a copy" if keep_copy else "a tombstone"
    write(f"transferred {item.record.identifiers[0]} to {target}; {remaining} remains here")


@click.command("delete")
@click.argument("ibi", type=read_ibi)
@click.option(
    "--reason", required=True, help="The reason for the deletion. Everybody can read the reason."
)
@click.option(
    "--citation",
    metavar="TEXT",
    help="The citation of the item. By default, pages make it from Dublin Core.",
)
@click.option(
    "--successor",
    type=read_ibi,
    metavar="IBI",
    help="The item, in any Archive, that replaces the deleted item.",
)
@click.option(
    "--discard-description",
    is_flag=True,
    help="Also delete the metadata of the item. The tombstone then has no title.",
)
@yes_option
def delete_command(
    ibi: str,
    reason: str,
    citation: str | None,
    successor: str | None,
    discard_description: bool,
    yes: bool,
) -> None:
    """Delete an item and leave a tombstone.

    A deletion cannot be undone. The command asks for confirmation. Without a terminal, --yes is
    required. The identifiers of the item are never issued again.

    The tombstone is a page with the HTTP status 410. The page shows the date of the deletion, the
    reason, the title, the authors and the citation of the item, and the successor of the item. The
    metadata of the item can still be read in all formats. With --discard-description, they are
    deleted, and only the --citation that you give is shown. This also works for an item that was
    deleted before.

    \b
    Example:
      flask --app example_app ibi delete 8JMKD3MGP8W/35MME4E --reason "Withdrawn by its authors" \\
          --successor 8JMKD3MGP8W/35MRHBE
    """
    if not reason.strip():
        raise click.UsageError("--reason is empty; --reason must say why the item is deleted")
    archive = get_archive()
    item = find_item(archive, ibi)
    name = item.record.identifiers[0]
    standard_output()
    title = " ".join(item.title.split())
    about = name if title == name else f"{name} ({title})"
    confirm(f"Delete {about}? This cannot be undone.", yes)
    archive.delete(
        ibi,
        reason,
        citation=citation,
        successor=successor,
        discard_description=discard_description,
    )
    address = archive.addresses.item(item)
    write(f"deleted {name}; {address} now shows the tombstone (410)")
