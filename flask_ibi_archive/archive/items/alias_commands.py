"""The commands ``flask ibi alias``: identifiers in other systems and former addresses of items."""

from __future__ import annotations

import click

from flask_ibi_archive.server.commands.group import (
    find_item,
    get_archive,
    json_option,
    read_ibi,
)
from flask_ibi_archive.server.commands.terminal import standard_output, write, write_table

ibi_argument = click.argument("ibi", type=read_ibi)
aliases_argument = click.argument("aliases", metavar="ALIAS...", nargs=-1, required=True)


@click.group("alias")
def alias_command() -> None:
    """Let Handles, DOIs and former addresses lead to items.

    An alias such as hdl:20.500.12345/678 belongs to one item of the Archive. The records of items
    contain the aliases in the field same_as: the command import with --on-conflict update adds
    those of many items. (A further IBI of an item is not such an alias; see the option --add-alias
    of the command edit.)

    \b
    Example:
      flask --app example_app ibi alias add 8JMKD3MGP8W/35MME4E hdl:20.500.12345/678
    """


@alias_command.command("add")
@ibi_argument
@aliases_argument
def add_command(ibi: str, aliases: tuple[str, ...]) -> None:
    """Add aliases to an item.

    An alias is written as in hdl:20.500.12345/678, doi:10.5281/zenodo.1234567, ark:12345/x54xz321,
    urn:nbn:br:1234, http://old.example.org/handle/1/2, or as a link to one of these. Aliases that
    the item has already do not change.

    \b
    Example:
      flask --app example_app ibi alias add 8JMKD3MGP8W/35MME4E hdl:20.500.12345/678 \\
          http://old.example.org/handle/1/2
    """
    from flask_ibi_archive.core.identifiers.foreign import parse_foreign

    archive = get_archive()
    standard_output()
    before = find_item(archive, ibi).record.same_as
    known = {parse_foreign(text).digest for text in before}
    new = {
        alias.digest: alias.text
        for alias in map(parse_foreign, aliases)
        if alias.digest not in known
    }
    if new:
        archive.edit(ibi, same_as=[*before, *new.values()])
    write(f"added {len(new)}, unchanged {len(aliases) - len(new)}")


@alias_command.command("remove")
@ibi_argument
@aliases_argument
def remove_command(ibi: str, aliases: tuple[str, ...]) -> None:
    """Remove aliases of an item.

    Links to a removed alias do not lead to the item any more. Use the command only for aliases that
    were added by mistake, or to give them to another item.

    \b
    Example:
      flask --app example_app ibi alias remove 8JMKD3MGP8W/35MME4E hdl:20.500.12345/678
    """
    from flask_ibi_archive.core.identifiers.foreign import parse_foreign

    archive = get_archive()
    standard_output()
    before = find_item(archive, ibi).record.same_as
    remaining = {parse_foreign(text).digest: text for text in before}
    for alias in map(parse_foreign, aliases):
        if remaining.pop(alias.digest, None) is None:
            known = ", ".join(before) or "none"
            raise click.ClickException(
                f"{alias.text} is not an alias of {ibi}; the aliases are: {known}"
            )
    archive.edit(ibi, same_as=[*remaining.values()])
    write(f"removed {len(aliases)}")


@alias_command.command("list")
@click.argument("ibi", type=read_ibi, required=False)
@json_option
def list_command(ibi: str | None, as_json: bool) -> None:
    """List the aliases of an item, or of all items.

    \b
    Example:
      flask --app example_app ibi alias list
      flask --app example_app ibi alias list 8JMKD3MGP8W/35MME4E --json
    """
    archive = get_archive()
    records = archive.list_records() if ibi is None else [find_item(archive, ibi).record]
    rows = (
        {"identifier": record.ibip or record.rep, "alias": text}
        for record in records
        for text in record.same_as
    )
    write_table(("identifier", "alias"), rows, as_json)
