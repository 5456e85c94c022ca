"""The commands ``flask ibi alias``: identifiers in other systems and former addresses of items."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from flask_ibi_archive.server.commands.group import get_archive, json_option, read_ibi
from flask_ibi_archive.server.commands.terminal import (
    Bars,
    standard_input,
    standard_output,
    write,
    write_json_list,
)

if TYPE_CHECKING:
    from flask_ibi_archive.archive.items.importing.importer import ImportSource
    from flask_ibi_archive.archive.items.operations.aliasing import NewAlias, WrongAlias

#: The columns of a file of aliases.
COLUMNS = ("identifier", "alias")
#: What replaces a byte that is not UTF-8; no identifier contains this character.
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
#: The number of lines after which the progress bar is updated.
LINES_PER_UPDATE = 1000

ibi_argument = click.argument("ibi", type=read_ibi)
aliases_argument = click.argument("aliases", metavar="ALIAS...", nargs=-1, required=True)


@click.group("alias")
def alias_command() -> None:
    """Let Handles, DOIs and former addresses lead to items.

    An alias such as hdl:20.500.12345/678 belongs to one item of the Archive. The records of items
    contain the aliases in the field same_as. (A further IBI of an item is not such an alias; see
    the option --add-alias of the command edit.)

    \b
    Example:
      flask --app example_app ibi alias add 8JMKD3MGP8W/35MME4E hdl:20.500.12345/678
      flask --app example_app ibi alias import aliases.csv
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
    from flask_ibi_archive.archive.items.operations.aliasing import add_aliases, parse_alias_line

    def stop(error: WrongAlias) -> None:
        raise click.ClickException(error.reason)

    archive = get_archive()
    standard_output()
    lines = [parse_alias_line(number, ibi, alias) for number, alias in enumerate(aliases, 1)]
    result = add_aliases(archive, lines, stop)
    write(f"added {result.added}, unchanged {result.unchanged}")


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
    from flask_ibi_archive.archive.items.operations.aliasing import remove_aliases
    from flask_ibi_archive.core.identifiers.foreign import parse_foreign

    archive = get_archive()
    standard_output()
    remove_aliases(archive, ibi, [parse_foreign(alias) for alias in aliases])
    write(f"removed {len(aliases)}")


@alias_command.command("list")
@click.argument("ibi", type=read_ibi, required=False)
@json_option
def list_command(ibi: str | None, as_json: bool) -> None:
    """List the aliases of an item, or of all items.

    Prints the columns identifier and alias as CSV, which alias import reads.

    \b
    Example:
      flask --app example_app ibi alias list
      flask --app example_app ibi alias list 8JMKD3MGP8W/35MME4E --json
    """
    from flask_ibi_archive.archive.items.operations.aliasing import list_aliases

    rows = list_aliases(get_archive(), ibi)
    if as_json:
        write_json_list(dict(zip(COLUMNS, row, strict=True)) for row in rows)
        return
    write(_format_row(COLUMNS), nl=False)
    for row in rows:
        write(_format_row(row), nl=False)


def _format_row(row: tuple[str, str]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(row)
    return buffer.getvalue()


@alias_command.command("import")
@click.argument("source", metavar="FILE.csv")
@click.option("--dry-run", is_flag=True, help="Check the file. Change nothing.")
def import_command(source: str, dry_run: bool) -> None:
    """Add aliases to many items from a CSV file.

    Each line has an identifier of an item and an alias of this item, separated by a comma. The
    first line may be the heading identifier,alias. The file is in UTF-8; the name - means standard
    input.

    All aliases are added in one transaction. If lines are wrong, no alias is added; each error is
    written to standard output with the number of its line, and the exit status is 1. Aliases that
    the items have already do not change, so that the command can be repeated.

    \b
    Example:
      flask --app example_app ibi alias import aliases.csv --dry-run
      flask --app example_app ibi alias import aliases.csv
    """
    from flask_ibi_archive.archive.items.importing.importer import open_source
    from flask_ibi_archive.archive.items.operations.aliasing import add_aliases
    from flask_ibi_archive.errors import RecordError

    def write_error(error: WrongAlias) -> None:
        bars.clear()
        write(str(RecordError(opened.name, error.line, error.field, error.reason)))

    archive = get_archive()
    archive.check_has_items()
    standard_output()
    stream = standard_input() if source == "-" else io.BytesIO()
    with open_source(source, stream) as opened, Bars(aliases="Importing") as bars:
        result = add_aliases(archive, _read_lines(opened, bars), write_error, dry_run=dry_run)
    if result.errors:
        errors = "1 error" if result.errors == 1 else f"{result.errors} errors"
        raise click.ClickException(f"{opened.name} has {errors}; nothing was changed")
    would = "would be " if dry_run else ""
    write(f"{would}added {result.added}, unchanged {result.unchanged}")


def _read_lines(source: ImportSource, bars: Bars) -> Iterator[NewAlias | WrongAlias]:
    """Yield the aliases of a CSV file, and the lines that are wrong."""
    from flask_ibi_archive.archive.items.operations.aliasing import WrongAlias, parse_alias_line

    size = source.size
    source.stream.seek(0)
    with io.TextIOWrapper(source.stream, "utf-8-sig", errors="replace", newline="") as text:
        rows = csv.reader(text, strict=True)
        while True:
            number = rows.line_num + 1
            try:
                row = next(rows)
            except StopIteration:
                break
            except csv.Error as error:
                yield WrongAlias(number, None, f"the line is not CSV: {error}")
                continue
            if number % LINES_PER_UPDATE == 0:  # the position is that of the bytes read ahead
                bars.show("aliases", source.stream.tell(), size)
            row = [cell.strip() for cell in row]
            if row in ([], [""]) or (number == 1 and tuple(map(str.lower, row)) == COLUMNS):
                continue
            if REPLACEMENT in "".join(row):
                yield WrongAlias(number, None, "the line is not UTF-8")
                continue
            if len(row) != len(COLUMNS):
                reason = f"the line has {len(row)} columns, not 2: an identifier, a comma, an alias"
                yield WrongAlias(number, None, reason)
                continue
            yield parse_alias_line(number, *row)
        bars.show("aliases", size, size)
