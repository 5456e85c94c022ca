"""Commands for items: add, edit, alias, copy, transfer, delete, import, export; identifiers."""

from __future__ import annotations

import codecs
import csv
import gc
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flask_ibi_archive.core.identifiers.dates import format_date, format_timestamp
from flask_ibi_archive.core.identifiers.parse import decode_identifier, parse_identifier
from flask_ibi_archive.errors import RecordError, StorageError
from flask_ibi_archive.errors import translatable as _
from flask_ibi_archive.server.commands import group, terminal

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive
    from flask_ibi_archive.archive.items.minting import Minted
    from flask_ibi_archive.core.records.record import Record

ibi_argument = click.argument("ibi", type=group.read_ibi)
ibi_option = partial(click.option, type=group.read_ibi, metavar="IBI")
repeatable_option = partial(click.option, multiple=True)
flag_option = partial(click.option, is_flag=True)
file_type: click.Path = click.Path(exists=True, dir_okay=False, path_type=Path)


# --- fields of items ---------------------------------------------------------------------------


#: The beginning of a text that is JSON. Cataloguers write titles such as [Untitled].
JSON_TEXT = re.compile(r'\s*(\{|\[\s*[]["{])')


def read_fields(assignments: Iterable[tuple[str, str]], before: Mapping[str, Any]) -> Any:
    """Convert texts such as ``title=Report`` to fields of an :class:`.ItemRecord`.

    A field that occurs several times becomes a list. A field with a dot, such as
    ``access.networks``, replaces only this part of the field.

    :param assignments: the names of fields, and their values. An empty text removes the value.
    :param before: the present record of the item, as JSON.
    :raises UsageError: if a value looks like JSON, but is not JSON.
    """
    from flask_ibi_archive.core.records.record import Record

    texts: dict[str, list[str]] = {}
    for field, text in assignments:
        texts.setdefault(field, []).extend([text] if text else [])
    defaults, changes = Record(), dict[str, Any]()
    for field, values in texts.items():
        name, *parts = field.split(".")
        value = _join_values(field, [_read_value(field, text) for text in values])
        old = changes.get(name, before.get(name))
        is_kind = name == "metadata" and parts[:1] in (["dc"], ["ibi"], ["work"])
        if is_kind and isinstance(old, Mapping) and parts[0] not in old:
            raise click.UsageError(
                f"{field}: the item has metadata.{next(iter(old), '')}; change this field, or "
                "replace it: write metadata= first"
            )
        value = _replace_part(old, parts, value)
        changes[name] = getattr(defaults, name, None) if value in (None, {}) else value
    return changes


def _read_value(field: str, text: str) -> Any:
    from flask_ibi_archive.core.records.record import read_json
    from flask_ibi_archive.core.records.values import FieldError

    if JSON_TEXT.match(text):
        try:
            return read_json(text)
        except FieldError as error:
            raise click.UsageError(f"{field}: {error}") from error
    if field in ("list_files", "transferable") and text in ("true", "false"):
        return text == "true"
    if field in ("next_edition", "metadata.ibi") or field.startswith("translations."):
        return group.read_ibi(text)
    return text


def _join_values(field: str, values: list[Any]) -> Any:
    """Return the only value of a field; a list if there are several; None if there is none."""
    is_network = field == "access.networks" and any(isinstance(value, str) for value in values)
    return values if is_network or len(values) > 1 else next(iter(values), None)


def _replace_part(old: Any, parts: Sequence[str], value: Any) -> Any:
    """Return a copy of a value in which one part is replaced, or removed if the new value is None.

    :param parts: the names that lead to the part.
    :raises UsageError: if the part is in a list.
    """
    if not parts:
        return value
    if isinstance(old, list):
        raise click.UsageError(f"{'.'.join(parts)} is part of a list; write the whole list")
    members = dict(old) if isinstance(old, Mapping) else {}
    part = _replace_part(members.pop(parts[0], None), parts[1:], value)
    return members if part in (None, {}) else {**members, parts[0]: part}


@contextmanager
def naming_arguments() -> Iterator[None]:
    """In the ``with`` block, report an error of a field as a wrong argument (exit status 2).

    :raises UsageError: if the block raises an error that a wrong field has caused.
    """
    from flask_ibi_archive.archive.items.item_record import name_field
    from flask_ibi_archive.core.records.values import FieldError

    try:
        yield
    except StorageError as error:
        wrong = error.__cause__
        if not isinstance(wrong, FieldError):
            raise
        raise click.UsageError(f"{name_field(wrong.field)}: {wrong.reason}") from error


# --- add and edit ------------------------------------------------------------------------------


@click.command("add")
@click.argument("files", nargs=-1, required=True, type=file_type)
@ibi_option("--edition-of", help="Add the new item as the next edition of this item.")
@ibi_option(
    "--translation-of",
    help="Add the new item as a translation of this item. --language is required.",
)
@ibi_option(
    "--reserved", help="Give the item this identifier. The command reserve has reserved it."
)
@click.option("--title", help="The title. It is the same as --set title=...")
@repeatable_option("--creator", help='An author, such as "Silva, Ana".')
@click.option("--language", help="The language of the item, such as pt or pt-BR.")
@repeatable_option(
    "--set",
    "assignments",
    metavar="FIELD=VALUE",
    help="Another field of the record, as in the command edit.",
)
@group.json_option
def add_command(
    files: tuple[Path, ...],
    edition_of: str | None,
    translation_of: str | None,
    reserved: str | None,
    title: str | None,
    creator: tuple[str, ...],
    language: str | None,
    assignments: tuple[str, ...],
    as_json: bool,
) -> None:
    """Deposit an item from local files.

    The first of FILES is the target file. The persistent URL of the item leads to the target file.

    Prints the identifiers of the item: the repository name, a tab and the IBIp. Prints the
    persistent URL on standard error. With --json, the URL is part of the JSON output.

    --creator and --set may be repeated. A new edition or translation does not inherit anything from
    the other item.

    \b
    Example:
      flask --app example_app ibi add report.pdf data.csv \\
          --title "Annual report" --creator "Banon, Gerald" --language en
      flask --app example_app ibi add report.pdf --title "Thesis" --set embargo=2027-03-01 \\
          --set access.networks=150.163.0.0/16 --set metadata.dc.subject=hydrology
      flask --app example_app ibi add report.pdf --translation-of 8JMKD3MGP8W/35MME4E \\
          --title "Relatório anual" --language pt
    """
    if edition_of is not None and translation_of is not None:
        raise click.UsageError(
            "--edition-of can't be used with --translation-of; add the new edition first, and then "
            "add its translation"
        )
    if translation_of is not None and language is None:
        raise click.UsageError("--translation-of needs --language, the language of the translation")
    stated = [("title", title), *(("creators", name) for name in creator), ("language", language)]
    pairs = [(field, text) for field, text in stated if text is not None]
    if "" in dict(pairs).values():
        raise click.UsageError("an option has an empty text; omit the option")
    fields = read_fields([*pairs, *map(_read_assignment, assignments)], {})
    for ibi in (edition_of, translation_of, reserved):
        if ibi is not None:
            parse_identifier(ibi)  # gives a more precise error than the deposit
    archive = group.get_archive()
    with naming_arguments():
        minted = archive.deposit(
            files=files,
            previous_edition=edition_of,
            translation_of=translation_of,
            reserved=reserved,
            **fields,
        )
    if reserved is None:
        group.warn_of_private_address(archive)
    if as_json:
        terminal.write_json(build_identifier_json(archive, minted))
        return
    write_identifiers(minted)
    terminal.say(f"persistent URL: {archive.persistent_url(minted)}")


def write_identifiers(minted: Minted) -> None:
    """Write both forms of the identifier of an item as a line."""
    terminal.write(f"{minted.rep}\t{minted.ibip}")


def build_identifier_json(archive: Archive, minted: Minted) -> dict[str, str]:
    """Return the identifiers and the persistent URL of an item for JSON output."""
    return {**asdict(minted), "persistent_url": archive.persistent_url(minted)}


@click.command("edit")
@ibi_argument
@click.argument("assignments", metavar="[FIELD=VALUE]...", nargs=-1)
@repeatable_option(
    "--add-file", "add_files", type=file_type, help="Add this file after the other files."
)
@repeatable_option(
    "--remove-file", "remove_files", metavar="NAME", help="Remove the file with this name."
)
@flag_option("--take-back", help="Make an item that was moved the Original again.")
def edit_command(ibi: str, assignments: tuple[str, ...], **options: Any) -> None:
    """Change fields of the record of an item, or its files.

    FIELD is a field of the record, such as title, creators, issued, language, embargo,
    next_edition or target_file. The page on the import format describes all fields. Write a field
    several times for several values. An empty VALUE removes the value of the field. Lists and
    objects can be written as JSON.

    A dot changes a part of a field and keeps the other parts: access.networks=150.163.0.0/16,
    translations.pt=IBI, metadata.dc.subject=ice. To replace metadata that are elsewhere, empty
    them first: metadata= title=Report. The field files names local files that replace all files.
    The command alias changes the other names of an item.

    An item whose Original is in another Archive can't be edited. If the other Archive gives up its
    Original, take it back with --take-back.

    If one change is not possible, the command changes nothing.

    \b
    Example:
      flask --app example_app ibi edit 8JMKD3MGP8W/35MME4E title="Annual report" language=en
      flask --app example_app ibi edit 8JMKD3MGP8W/35MME4E creators="Silva, Ana" \\
          creators="Souza, Davi" embargo=
      flask --app example_app ibi edit 8JMKD3MGP8W/35MME4E files=report.pdf files=data.csv
      flask --app example_app ibi edit 8JMKD3MGP8W/35MME4E --remove-file a.csv --add-file data.csv
    """
    from flask_ibi_archive.core.records.record import format_record

    if not (assignments or any(options.values())):
        raise click.UsageError('nothing says what to change; write for example title="A report"')
    pairs = [_read_assignment(text) for text in assignments]
    archive = group.get_archive()
    item = group.find_item(archive, ibi)
    before = format_record(item.record)
    changes = read_fields(pairs, {**before, **before.get("metadata", {}).get("work", {})})
    with naming_arguments():
        archive.edit(ibi, **options, **changes)
    terminal.write(f"edited {item.record.identifiers[0]}")


def _read_assignment(text: str) -> tuple[str, str]:
    """Split an argument FIELD=VALUE into the field and the value.

    :raises UsageError: if the argument is not FIELD=VALUE, or if the field can't be edited.
    """
    from flask_ibi_archive.archive.items.item_record import EDITABLE
    from flask_ibi_archive.core.records.values import quoted, suggest

    field, sign, value = text.partition("=")
    if not sign:
        raise click.UsageError(f"{quoted(text)} is not FIELD=VALUE, such as language=pt")
    name = field.partition(".")[0]
    known = ("files", *(known for known in EDITABLE if known != "aliases"))
    if name not in known:
        meant = suggest(name, known) or f"; the fields are {', '.join(known)}"
        raise click.UsageError(f"{quoted(name)[1:-1]}: this field can't be edited{meant}")
    return field, value


# --- other names -------------------------------------------------------------------------------


names_argument = click.argument("names", metavar="NAME...", nargs=-1, required=True)


@click.group("alias")
def alias_command() -> None:
    """Let other names lead to items: IBIs, DOIs, old addresses.

    A name belongs to one item of the Archive. It is a further IBI, a Handle, DOI, ARK or URN, or an
    address at which the item used to be. The records of items contain the further IBIs in the field
    aliases, and the others in the field same_as: the command import with --on-conflict update adds
    those of many items. Removed items and Copies have other names too.

    \b
    Example:
      flask --app example_app ibi alias add 8JMKD3MGP8W/35MME4E hdl:20.500.12345/678
    """


@alias_command.command("add")
@ibi_argument
@names_argument
def add_alias_command(ibi: str, names: tuple[str, ...]) -> None:
    """Add other names to an item.

    A name is written as in 83LX3pFwXQZeBBx/hwiTk (an IBI), hdl:20.500.12345/678,
    doi:10.5281/zenodo.1234567, ark:12345/x54xz321, urn:nbn:br:1234,
    http://old.example.org/handle/1/2, or as a link to one of these. Names that the item has already
    do not change.

    \b
    Example:
      flask --app example_app ibi alias add 8JMKD3MGP8W/35MME4E hdl:20.500.12345/678 \\
          http://old.example.org/handle/1/2
    """
    from flask_ibi_archive.archive.items.operations import change_names

    changed = change_names(group.get_archive(), ibi, add=names)
    terminal.write(f"added {changed}, unchanged {len(names) - changed}")


@alias_command.command("remove")
@ibi_argument
@names_argument
def remove_alias_command(ibi: str, names: tuple[str, ...]) -> None:
    """Remove other names of an item.

    A removed name does not lead to the item any more. Use the command only for names that were
    added by mistake, or to give them to another item.

    \b
    Example:
      flask --app example_app ibi alias remove 8JMKD3MGP8W/35MME4E hdl:20.500.12345/678
    """
    from flask_ibi_archive.archive.items.operations import change_names

    terminal.write(f"removed {change_names(group.get_archive(), ibi, remove=names)}")


@alias_command.command("list")
@click.argument("ibi", type=group.read_ibi, required=False)
@group.json_option
def list_aliases_command(ibi: str | None, as_json: bool) -> None:
    """List the other names of an item, or of all items.

    \b
    Example:
      flask --app example_app ibi alias list
      flask --app example_app ibi alias list 8JMKD3MGP8W/35MME4E --json
    """
    archive = group.get_archive()
    records = archive.list_records() if ibi is None else [group.find_item(archive, ibi).record]
    rows = (
        {"identifier": record.ibip or record.rep, "alias": name}
        for record in records
        for name in (*record.aliases, *record.same_as)
    )
    terminal.write_table(("identifier", "alias"), rows, as_json)


# --- copies, transfers, removal ----------------------------------------------------------------


@click.command("copy")
@ibi_argument
@ibi_option(
    "--to",
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
    archive = group.get_archive()
    ibi = parse_identifier(ibi).text
    target = None if to is None else parse_identifier(to).text
    archive.make_copy(ibi, target)
    name = group.find_item(archive, ibi).record.identifiers[0]
    terminal.write(f"copied {name} to {target or archive.served().service_ibi}")


@click.command("transfer")
@ibi_argument
@ibi_option(
    "--to",
    required=True,
    metavar="SERVICEIBI",
    help="The service IBI of the Archive that gets the item.",
)
@flag_option("--keep-copy", help="Keep a copy in this Archive instead of a tombstone.")
def transfer_command(ibi: str, to: str, keep_copy: bool) -> None:
    """Transfer an item to another Archive of the database.

    The identifiers of the item do not change. A tombstone remains in this Archive. With
    --keep-copy, a copy remains instead of the tombstone.

    \b
    Example:
      flask --app example_app ibi transfer 8JMKD3MGP8W/35MME4E \\
          --to sid.inpe.br/mtc-m19@80/2009/08.21.17.02 --keep-copy
    """
    archive = group.get_archive()
    name = group.find_item(archive, ibi).record.identifiers[0]
    target = parse_identifier(to).text
    archive.transfer(ibi, target, keep_copy=keep_copy)
    remaining = "a copy" if keep_copy else "a tombstone"
    terminal.write(f"transferred {name} to {target}; {remaining} remains here")


@click.command("delete")
@ibi_argument
@click.option(
    "--reason", required=True, help="The reason for the deletion. Everybody can read the reason."
)
@click.option(
    "--citation",
    metavar="TEXT",
    help="The citation of the item. By default, pages make it from Dublin Core.",
)
@ibi_option("--successor", help="The item, in any Archive, that replaces the deleted item.")
@flag_option(
    "--discard-description",
    help="Also delete the metadata of the item. The tombstone then has no title.",
)
@group.yes_option
def delete_command(ibi: str, reason: str, yes: bool, **options: Any) -> None:
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
    archive = group.get_archive()
    item = group.find_item(archive, ibi)
    name, title = item.record.identifiers[0], " ".join(item.title.split())
    about = name if title == name else f"{name} ({title})"
    terminal.confirm(f"Delete {about}? This cannot be undone.", yes)
    archive.delete(ibi, reason, **options)
    terminal.write(f"deleted {name}; {archive.addresses.item(item)} now shows the tombstone (410)")


# --- identifiers -------------------------------------------------------------------------------


@click.command("mint")
@click.option(
    "-n", "count", default=1, type=click.IntRange(1, 1_000_000), help="The number of identifiers."
)
@group.json_option
def mint_command(count: int, as_json: bool) -> None:
    """Mint new identifiers.

    Prints one line for each identifier: the repository name, a tab and the IBIp. Prints the
    persistent URLs on standard error. With --json, the URLs are part of the JSON output. A minted
    identifier is never issued again, even if no item uses this identifier.

    \b
    Example:
      flask --app example_app ibi mint -n 3
    """
    archive = group.get_archive()
    minted = archive.mint(count)
    group.warn_of_private_address(archive)
    if as_json:
        terminal.write_json_list(build_identifier_json(archive, new) for new in minted)
        return
    for new in minted:
        write_identifiers(new)
    if count == 1:
        terminal.say(f"persistent URL: {archive.persistent_url(minted[0])}")
    else:
        terminal.say(f"persistent URLs: {archive.persistent_url('')}IDENTIFIER")


@click.command("decode")
@ibi_argument
@group.json_option
def decode_command(ibi: str, as_json: bool) -> None:
    """Show the address, port and date in an identifier.

    The address is a host name or an IP address.

    \b
    Example:
      flask ibi decode 8JMKD3MGP8W/34PGRBS
    """
    decoded = decode_identifier(parse_identifier(ibi))
    facts = {
        "form": decoded.form.value,
        "host": decoded.host,
        "ip": decoded.ip,
        "port": decoded.port,
        "date": None if decoded.date is None else format_date(decoded.date),
    }
    known = {name: value for name, value in facts.items() if value is not None}
    if as_json:
        terminal.write_json(known)
        return
    for name, value in known.items():
        terminal.write(f"{name} {value}")


@click.command("reserve")
@click.option(
    "-n", "count", type=click.IntRange(1, 10_000), help="The number of identifiers.  [default: 1]"
)
@click.option("--note", metavar="TEXT", help="A note on the purpose of the reservation.")
@flag_option("--list", "listing", help="List the reservations. Reserve nothing.")
@group.json_option
def reserve_command(count: int | None, note: str | None, listing: bool, as_json: bool) -> None:
    """Reserve identifiers for drafts.

    Prints one line for each identifier: the repository name, a tab and the IBIp. The command
    "add --reserved" gives a reserved identifier to an item. The command "release" ends the
    reservation. A reserved identifier is never issued again.

    --list prints a table of the reservations. A status is held, used or released.

    \b
    Example:
      flask --app example_app ibi reserve --note "Thesis of Ana, to be printed on the cover"
      flask --app example_app ibi reserve --list
    """
    if listing:
        if count is not None or note is not None:
            raise click.UsageError("--list cannot be used with -n or --note")
        rows: Iterator[dict[str, Any]] = (
            {
                **asdict(reservation),
                "reserved_at": format_timestamp(reservation.reserved_at),
                "settled_at": format_timestamp(reservation.settled_at),
            }
            for reservation in group.get_archive().reservations()
        )
        columns = ("rep", "ibip", "status", "reserved_at", "settled_at", "note")
        terminal.write_table(columns, rows, as_json)
        return
    archive = group.get_archive()
    group.warn_of_private_address(archive)
    reserved = (archive.reserve(note) for _ in range(count or 1))
    if as_json:
        terminal.write_json([asdict(new) for new in reserved])
        return
    for new in reserved:
        write_identifiers(new)


@click.command("release")
@click.argument("ibis", metavar="IBI...", type=group.read_ibi, nargs=-1, required=True)
@flag_option("--dry-run", help="Check the identifiers. Change nothing.")
def release_command(ibis: tuple[str, ...], dry_run: bool) -> None:
    """Release reserved identifiers forever.

    A released identifier is never used for an item. If one of the identifiers is not
    reserved, or its reservation has ended, the command releases no identifier.

    \b
    Example:
      flask --app example_app ibi release 8JMKD3MGP8W/35MME4E
    """
    archive = group.get_archive()
    known = {
        name: reservation
        for reservation in archive.reservations()
        for name in (reservation.rep, reservation.ibip)
    }
    held: dict[str, None] = {}  # without repetition
    for text in (parse_identifier(ibi).text for ibi in ibis):
        if text not in known:
            raise StorageError(f"{text} is not reserved; see flask ibi reserve --list")
        if known[text].status != "held":
            raise StorageError(f"the reservation of {text} was already {known[text].status}")
        held[known[text].rep] = None
    for rep in held:
        if not dry_run:
            archive.release(rep)
        terminal.write(f"{'would release' if dry_run else 'released'} {rep}")


# --- import and export -------------------------------------------------------------------------


#: The number of lines that export writes to standard output at a time.
LINES_PER_WRITE = 400


@click.command("import")
@click.argument("source", metavar="FILE")
@click.option(
    "--on-conflict",
    type=click.Choice(["error", "skip", "update"]),
    default="error",
    show_default=True,
    help="What to do with an item that already exists.",
)
@flag_option(
    "--take-back",
    help="With --on-conflict update: items whose Originals are elsewhere may become Originals.",
)
@click.option(
    "--files-folder",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help='The folder of the files that "source" fields name, instead of the folder of FILE.',
)
@flag_option("--dry-run", help="Check the file. Change nothing.")
@flag_option("--mint", help="Import works without identifiers, and give each item new ones.")
@repeatable_option(
    "--map",
    "mapped",
    metavar="FIELD=COLUMN",
    help="With --mint and CSV: the column that contains a field.",
)
@repeatable_option(
    "--ignore",
    "ignored",
    metavar="COLUMN",
    help="With --mint and CSV: a column that is not read.",
)
@click.option(
    "--separator",
    default=";",
    show_default=True,
    help="With --mint and CSV: what separates several values in a cell.",
)
@click.option(
    "--identifiers",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="OUT.csv",
    help="With --mint: write the new identifiers to a table.",
)
@click.option(
    "--dates",
    type=click.Choice(["dmy", "mdy"]),
    help="With --mint and CSV: the order of day and month, if no other row of the column tells it.",
)
@flag_option("--strict", help="With --mint: warnings are errors.")
@group.json_option
def import_command(
    source: str,
    files_folder: Path | None,
    dry_run: bool,
    mint: bool,
    mapped: tuple[str, ...],
    ignored: tuple[str, ...],
    separator: str,
    identifiers: Path | None,
    dates: str | None,
    strict: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Import items from JSON Lines, or works from a table.

    FILE contains one item per line. The name - means standard input. If a line is wrong or the
    import is interrupted, no item is imported. The error names the file, the line and the field.
    Items may refer to each other in any order.

    After a move, the Original of an item is in another Archive. A line that would make a second
    Original here is refused. If the other Archive gives up its Original, take it back with
    --take-back.

    "source" fields name files in the folder of FILE or below. Paths are relative to this folder.
    No other files of this computer are read. If the files are in another folder, or FILE is -, name
    the folder with --files-folder.

    With --dry-run, nothing is changed. All errors are written to standard output, one per line.
    The exit status is 1 if there are errors. A line with an error is ignored when the other lines
    are checked.

    With --mint, FILE contains works without identifiers: a table (.csv), the format of this command
    without rep and ibip (.jsonl) or CSL-JSON (.json), which reference managers export. Each item
    gets identifiers in both forms. If there are errors, all of them are written, and nothing is
    imported. Works that have an item already are skipped, or update it with --on-conflict update.

    A wrong value of a description, such as an ISBN, is left out with a warning, and the work is
    imported, except its title, its date and its identifiers. Warnings are written at the end, on
    standard error. With --json, the numbers, the errors and the warnings are one JSON object.

    \b
    Example:
      flask --app example_app ibi import example_app/records/items.jsonl
      flask --app example_app ibi import items.jsonl --files-folder .
      flask --app example_app ibi import works.csv --mint --map title=Obra --identifiers new.csv
    """
    from flask_ibi_archive.archive.items import import_export
    from flask_ibi_archive.server.web.texts import gettext, ngettext, translate_reason

    if mint and source == "-":
        raise click.UsageError("--mint requires a file, whose name says what it contains.")
    if not mint and (mapped or ignored or identifiers or dates or strict):
        raise click.UsageError(
            "--map, --ignore, --identifiers, --dates and --strict require --mint."
        )
    if (mapped or ignored or dates) and not source.lower().endswith(import_export.TABLES):
        raise click.UsageError("--map, --ignore and --dates are for the columns of a CSV file.")
    columns = dict(map(_parse_column, mapped))
    archive = group.get_archive()
    context = archive.context  # fails if there is no Archive, before anything is read
    errors: list[RecordError] = []
    warnings: list[RecordError] = []

    def report(error: RecordError) -> None:
        errors.append(error)
        if not as_json:
            bars.clear()
            terminal.write(translate_reason(error))

    with (
        import_export.open_source(source, lambda: sys.stdin.buffer, files_folder) as opened,
        terminal.Bars(check="Checking", work="Importing") as bars,
        ExitStack() as stack,
    ):
        gc.freeze()  # the garbage collector need not examine the objects of the app again and again
        stack.callback(gc.unfreeze)
        importer = import_export.Importer(
            context, dry_run=dry_run, progress=bars.show, on_error=report, **options
        )
        if mint:
            works = import_export.read_works(opened, columns, separator, ignored, dates or "")
            table = _write_identifiers(archive, None if dry_run else identifiers, works.delimiter)
            works_importer = import_export.WorksImporter(
                importer, stack.enter_context(table), warnings.append, strict
            )
            counts = works_importer.run(opened, works, Path(source).name)
        else:
            counts = importer.run(opened)
        if errors:
            bars.close()
            _write_report({}, errors, warnings, as_json)
            text = ngettext(
                "{name} has {count} error; nothing was changed",
                "{name} has {count} errors; nothing was changed",
                len(errors),
                name=opened.name,
            )
            raise click.ClickException(text)
    if not as_json:
        text = _("added {added}, updated {updated}, skipped {skipped}")
        if dry_run:
            text = _(
                "would be added {added}, would be updated {updated}, would be skipped {skipped}"
            )
        terminal.write(gettext(text, **asdict(counts)))
    _write_report(asdict(counts), errors, warnings, as_json)


def _write_report(
    counts: Mapping[str, int],
    errors: Sequence[RecordError],
    warnings: Sequence[RecordError],
    as_json: bool,
) -> None:
    """Write the warnings of an import to standard error; with --json, write all results as JSON."""
    from flask_ibi_archive.server.web.texts import translate_reason

    if as_json:
        lists = {"errors": errors, "warnings": warnings}
        found = {name: [one.to_json() for one in ones] for name, ones in lists.items()}
        terminal.write_json({**counts, **found})
        return
    for warning in warnings:
        terminal.warn(translate_reason(warning))


def _parse_column(text: str) -> tuple[str, str]:
    """Split an argument FIELD=COLUMN; return the column first, then the field.

    :raises UsageError: if the field is unknown.
    """
    from flask_ibi_archive.core.records.readers import FIELDS, find_column

    field, sign, column = text.partition("=")
    if not sign or not column or find_column(field) is None:
        raise click.UsageError(
            f"--map {text}: write FIELD=COLUMN; the fields are {', '.join(FIELDS)}."
        )
    return column, field


@contextmanager
def _write_identifiers(
    archive: Archive, path: Path | None, delimiter: str
) -> Iterator[Callable[[str, str, Minted, str], None] | None]:
    """Open the table of identifiers, and yield a function that adds a row to it.

    An existing file is replaced when the ``with`` block ends without an error.

    :param path: the path of the table; None: there is no table, and None is yielded.
    """
    if path is None:
        yield None
        return
    from flask_ibi_archive.server.atomic_files import new_file

    with new_file(path.resolve(), mode=0o666) as stream:
        # spreadsheets recognise UTF-8 by the mark at the beginning
        rows = csv.writer(codecs.getwriter("utf-8-sig")(stream), delimiter=delimiter)
        rows.writerow(("place", "key", "rep", "ibip", "url", "title"))

        def add(place: str, key: str, minted: Minted, title: str) -> None:
            url = archive.persistent_url(minted)
            cells = (place, key, minted.rep, minted.ibip, url, title)
            # an apostrophe keeps spreadsheets from taking a text for a formula
            rows.writerow([f"'{text}" if re.match(r"[=+@\t\r-]", text) else text for text in cells])

        yield add


@click.command("export")
@click.argument("target", metavar="[FILE]", default="-")
@click.option(
    "--files",
    metavar="FOLDER",
    type=click.Path(file_okay=False, path_type=Path),
    help='Copy the files to FOLDER. "source" is then relative to the folder of FILE.',
)
@click.option("--with-counts", is_flag=True, help="Add the daily counts of accesses.")
def export_command(target: str, files: Path | None, with_counts: bool) -> None:
    """Export all items as JSON Lines.

    The export contains all items in their state at one moment. Without FILE, the export is written
    to standard output. The command replaces an existing FILE only when the export is complete. The
    command import reads the same format.

    The field "source" is the path of a stored file in the files folder of the Archive. With
    --files, the stored files are copied to FOLDER. The export and FOLDER can then be imported on
    another computer.

    \b
    Example:
      flask --app example_app ibi export items.jsonl
      flask --app example_app ibi export items.jsonl --files files
    """
    from flask_ibi_archive.archive.items import import_export as exporting
    from flask_ibi_archive.core.records.record import format_line
    from flask_ibi_archive.server.atomic_files import new_file

    archive = group.get_archive()
    # closing() ends the transaction of the generator, also after an error
    with closing(archive.list_records()) as exported:
        records: Iterator[Record] = exported
        if files is not None:
            base = Path() if target == "-" else Path(target).resolve().parent
            records = exporting.copy_files(records, files.resolve(), base)
        texts = (
            exporting.format_with_counts(records, archive.database, archive.served().id)
            if with_counts
            else map(format_line, records)
        )
        lines = (text.encode() + b"\n" for text in texts)
        if target == "-":
            while block := b"".join(islice(lines, LINES_PER_WRITE)):
                terminal.write(block, nl=False)
            return
        # resolve() keeps a symbolic link; the umask restricts the permissions of a new file
        with new_file(Path(target).resolve(), mode=0o666) as stream:
            stream.writelines(lines)
