"""Commands for items: add, edit, import, export, show, delete."""

from __future__ import annotations

import csv
import gc
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flask_ibi_archive.server.commands.group import (
    find_item,
    get_archive,
    json_option,
    read_ibi,
    warn_of_private_address,
    yes_option,
)
from flask_ibi_archive.server.commands.terminal import (
    Bars,
    confirm,
    say,
    standard_input,
    standard_output,
    write,
    write_json,
    write_json_list,
    write_table,
)

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive
    from flask_ibi_archive.archive.items.import_export import Counts, IdentifiedWork, ImportSource
    from flask_ibi_archive.archive.items.minting import Minted
    from flask_ibi_archive.archive.items.operations import ItemRecord
    from flask_ibi_archive.core.records.record import (
        AccessRule,
        DublinCoreMetadata,
        MetadataAddress,
        MetadataItem,
        Record,
    )
    from flask_ibi_archive.errors import RecordError


# --- alias commands ----------------------------------------------------------------------------


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
def add_alias_command(ibi: str, aliases: tuple[str, ...]) -> None:
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


# --- life commands -----------------------------------------------------------------------------


#: The elements of Dublin Core that have an option. The element "language" has no option, because
#: --language sets the language of the item.
OPTIONS = (
    "title",
    "creator",
    "subject",
    "description",
    "publisher",
    "contributor",
    "date",
    "type",
    "source",
    "relation",
    "coverage",
    "rights",
)


CONTENT_TYPE = click.Choice(["Data", "Metadata"])
OTHERS = click.Choice(["metadata", "none"])
OTHERS_HELP = "What users outside the networks can see: the metadata or nothing."
language_option = click.option("--language", help="The language of the item, such as pt or pt-BR.")
network_option = click.option(
    "--network",
    "networks",
    multiple=True,
    help="Restrict access to the files to this network (CIDR).",
)
embargo_option = click.option(
    "--embargo", metavar="DATE", help="The first day (UTC) on which readers may read the files."
)
same_as_option = click.option(
    "--same-as",
    metavar="ALIAS",
    multiple=True,
    help="A Handle, DOI, ARK or URN of the item, or an address at which it used to be.",
)


def dublin_core_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the repeatable options for Dublin Core (--title, --creator and so on) to a command."""
    for element in reversed(OPTIONS):
        command = click.option(f"--{element}", f"dc_{element}", multiple=True)(command)
    return command


def get_elements(options: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the elements of Dublin Core and their values from the options of a command."""
    return {name: list(options[f"dc_{name}"]) for name in OPTIONS if options[f"dc_{name}"]}


@click.command("add")
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option(
    "--edition-of",
    type=read_ibi,
    metavar="IBI",
    help="Add the new item as the next edition of this item.",
)
@click.option(
    "--translation-of",
    type=read_ibi,
    metavar="IBI",
    help="Add the new item as a translation of this item. --language is required.",
)
@click.option(
    "--reserved",
    type=read_ibi,
    metavar="IBI",
    help="Give the item this identifier. The command reserve has reserved it.",
)
@dublin_core_options
@language_option
@click.option("--content-type", type=CONTENT_TYPE, default="Data")
@network_option
@click.option("--others", type=OTHERS, default="metadata", help=OTHERS_HELP)
@embargo_option
@same_as_option
@click.option("--no-file-list", is_flag=True, help="Do not publish the list of the files.")
@json_option
def add_command(
    files: tuple[Path, ...],
    edition_of: str | None,
    translation_of: str | None,
    reserved: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Deposit an item from local files.

    The first of FILES is the target file. The persistent URL of the item leads to the target file.

    Prints the identifiers of the item: the repository name, a tab and the IBIp. Prints the
    persistent URL on standard error. With --json, the URL is part of the JSON output.

    The options for Dublin Core may be repeated. A new edition or translation does not inherit
    anything from the other item.

    \b
    Example:
      flask --app example_app ibi add report.pdf data.csv \\
          --title "Annual report" --creator "Banon, Gerald" --language en
      flask --app example_app ibi add report.pdf --title "Thesis" --embargo 2027-03-01
      flask --app example_app ibi add report.pdf --translation-of 8JMKD3MGP8W/35MME4E \\
          --title "Relatório anual" --language pt
    """
    if edition_of is not None and translation_of is not None:
        raise click.UsageError(
            "--edition-of can't be used with --translation-of; add the new edition first, and then "
            "add its translation"
        )
    if translation_of is not None and options["language"] is None:
        raise click.UsageError("--translation-of needs --language, the language of the translation")
    archive = get_archive()
    standard_output()
    minted = _deposit(archive, _describe(options), files, edition_of, translation_of, reserved)
    if reserved is None:
        warn_of_private_address(archive)
    if as_json:
        write_json(build_identifier_json(archive, minted))
        return
    write(f"{minted.rep}\t{minted.ibip}")
    say(f"persistent URL: {archive.persistent_url(minted)}")


def build_identifier_json(archive: Archive, minted: Minted) -> dict[str, str]:
    """Return the identifiers and the persistent URL of an item for JSON output."""
    return {
        "rep": minted.rep,
        "ibip": minted.ibip,
        "persistent_url": archive.persistent_url(minted),
    }


def _describe(options: Mapping[str, Any]) -> ItemRecord:
    """Return the description that the options contain. The description is not validated yet."""
    elements, networks = get_elements(options), list(options["networks"])
    return {
        "content_type": options["content_type"],
        "language": options["language"],
        "metadata": {"dc": elements} if elements else None,
        "access": {"networks": networks, "others": options["others"]} if networks else None,
        "embargo": options["embargo"],
        "same_as": list(options["same_as"]),
        "list_files": not options["no_file_list"],
    }


def _deposit(
    archive: Archive,
    record: ItemRecord,
    files: Sequence[Path],
    edition_of: str | None,
    translation_of: str | None,
    reserved: str | None,
) -> Minted:
    """Deposit an item.

    :raises UsageError: if the value of an option is wrong; the message names the option.
    """
    from flask_ibi_archive.core.identifiers import parse_identifier
    from flask_ibi_archive.errors import StorageError

    for ibi in (edition_of, translation_of, reserved):
        if ibi is not None:
            parse_identifier(ibi)  # gives a more precise error than the deposit
    try:
        if edition_of is not None:
            return archive.new_edition(edition_of, record, files, reserved=reserved)
        if translation_of is not None:
            return archive.add_translation(translation_of, record, files, reserved=reserved)
        return archive.deposit(record, files, reserved=reserved)
    except StorageError as error:
        message = _describe_wrong_option(error)
        if message is None:
            raise
        raise click.UsageError(message) from error


def _describe_wrong_option(error: Exception) -> str | None:
    """Return a message that names the wrong option; None if no option caused the error."""
    from flask_ibi_archive.core.records.values import FieldError

    cause = error.__cause__
    if isinstance(cause, FieldError):
        if cause.field in ("language", "embargo"):
            return f"--{cause.field}: {cause.reason}"
        if cause.field.startswith("same_as"):
            return f"--same-as: {cause.reason}"
        if cause.field.startswith("access.networks"):
            return f"--network: {cause.reason}"
        if found := re.match(r"metadata\.dc\.(\w+)", cause.field):
            return f"--{found[1]}: {cause.reason}"
    return None


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


# --- editing commands --------------------------------------------------------------------------


#: The parameters of the options that add or remove one file or one alias.
SINGLE_CHANGES = ("add_files", "remove_files", "add_aliases", "remove_aliases")

#: Flags that have a positive and a negative form, such as --file-list and --no-file-list.
TWO_WAY = ("file_list", "transferable")

#: The parameters of repeatable options, such as ``networks`` of the option --network.
REPEATABLE = ("networks", "translations", "files", *SINGLE_CHANGES)

#: The parameters of the options that replace all metadata.
METADATA_OPTIONS = frozenset({"metadata_item", "metadata_url", "no_metadata"})

#: The fields of a description that the options for Dublin Core set.
LIST_FIELDS = {
    "title": "title",
    "creator": "creators",
    "subject": "subjects",
    "description": "abstracts",
    "contributor": "contributors",
    "relation": "related",
    "coverage": "coverage",
}
SINGLE_FIELDS = {"publisher": "publisher", "date": "issued", "type": "type", "source": "container"}

#: Groups of options. Two options of one group cannot be used together.
EXCLUSIVE_OPTIONS = (
    ("language", "no_language"),
    ("networks", "open"),
    ("others", "open"),
    ("embargo", "no_embargo"),
    ("next_edition", "no_next_edition"),
    ("translations", "no_translations"),
    ("same_as", "no_same_as"),
    ("files", "add_files"),
    ("files", "remove_files"),
    ("metadata_item", "metadata_url", "no_metadata"),
    *(("metadata_item", f"dc_{name}") for name in OPTIONS),
    *(("metadata_url", f"dc_{name}") for name in OPTIONS),
)

FILES: dict[str, Any] = {
    "type": click.Path(exists=True, dir_okay=False, path_type=Path),
    "multiple": True,
}
IBI: dict[str, Any] = {"type": read_ibi, "metavar": "IBI"}


@click.command("edit")
@click.argument("ibi", type=read_ibi)
@dublin_core_options
@language_option
@click.option("--no-language", is_flag=True, help="Remove the language of the item.")
@click.option("--content-type", type=CONTENT_TYPE)
@network_option
@click.option("--others", type=OTHERS, help=OTHERS_HELP)
@click.option("--open", is_flag=True, help="Remove the restriction to networks.")
@embargo_option
@click.option("--no-embargo", is_flag=True, help="Remove the embargo.")
@click.option(
    "--file-list/--no-file-list", default=None, help="Publish or hide the list of the files."
)
@click.option(
    "--transferable/--not-transferable",
    default=None,
    help="Allow or forbid the transfer to another Archive.",
)
@click.option("--next-edition", **IBI, help="The next edition of the item.")
@click.option("--no-next-edition", is_flag=True, help="Remove the link to the next edition.")
@click.option(
    "--translation",
    "translations",
    metavar="xx=IBI",
    multiple=True,
    help="The translation of the item into the language xx.",
)
@click.option("--no-translations", is_flag=True, help="Remove the links to all translations.")
@click.option("--metadata-item", **IBI, help="The item that contains the metadata.")
@click.option("--metadata-url", metavar="URL", help="The URL of the metadata.")
@click.option("--no-metadata", is_flag=True, help="Remove the metadata.")
@click.option(
    "--file", "files", **FILES, help="Replace all files by this file. The option may be repeated."
)
@click.option("--add-file", "add_files", **FILES, help="Add this file after the other files.")
@click.option(
    "--remove-file",
    "remove_files",
    metavar="PATH",
    multiple=True,
    help="Remove the file with this path.",
)
@click.option(
    "--add-alias", "add_aliases", **IBI, multiple=True, help="Add this identifier as an alias."
)
@click.option(
    "--remove-alias",
    "remove_aliases",
    **IBI,
    multiple=True,
    help="Remove this alias. Use only for an alias that was added by mistake.",
)
@same_as_option
@click.option("--no-same-as", is_flag=True, help="Remove all Handles, DOIs and former addresses.")
@click.option("--take-back", is_flag=True, help="Make an item that was moved the Original again.")
@click.option("--target-file", metavar="PATH", help="The file to which the persistent URL leads.")
def edit_command(ibi: str, **options: Any) -> None:
    """Change the record or the files of an item.

    Only the fields change that are named by an option. An option for Dublin Core replaces all
    values of its element. Repeat the option for several values (--subject a --subject b). An empty
    value removes the element (--subject ""). --no-metadata first removes all elements. --same-as
    replaces all Handles, DOIs and former addresses; the command alias adds and removes single ones.

    An item whose Original is in another Archive can't be edited. If the other Archive gives up its
    Original, take it back with --take-back.

    If one change is not possible, the command changes nothing.

    \b
    Example:
      flask --app example_app ibi edit 8JMKD3MGP8W/35MME4E --title "Annual report" --language en
      flask --app example_app ibi edit 8JMKD3MGP8W/35MME4E --file report.pdf --file data.csv
      flask --app example_app ibi edit 8JMKD3MGP8W/35MME4E --remove-file a.csv --add-file data.csv
    """
    from flask_ibi_archive.core.records.values import FieldError

    values = {
        name: value
        for name, value in options.items()
        if value is not None and value != () and (value is not False or name in TWO_WAY)
    }
    _check_options(values)
    archive = get_archive()
    item = find_item(archive, ibi)
    try:
        changes = build_changes(item.record, values, get_elements(options))
    except FieldError as error:
        raise click.UsageError(str(error)) from error
    standard_output()
    single = {name: values[name] for name in SINGLE_CHANGES if name in values}
    single["take_back"] = options["take_back"]
    archive.edit(ibi, files=values.get("files"), **single, **changes)
    write(f"edited {item.record.identifiers[0]}")


def _check_options(values: Mapping[str, Any]) -> None:
    """Check that the options say what to change and do not exclude each other.

    :raises UsageError: if there is no option, or if two options exclude each other.
    """
    if not values:
        raise click.UsageError(
            "no option says what to change; use at least one option, for example --title"
        )
    for names in EXCLUSIVE_OPTIONS:
        found = [_format_option(name) for name in names if name in values]
        if len(found) > 1:
            raise click.UsageError(f"{' and '.join(found)} exclude each other")


def _format_option(name: str) -> str:
    """Return the name of the option that sets a parameter, such as ``--add-file``."""
    if name in REPEATABLE:
        name = name.removesuffix("es" if name.endswith("aliases") else "s")
    return f"--{name.removeprefix('dc_').replace('_', '-')}"


def build_changes(
    item: Record, values: Mapping[str, Any], elements: Mapping[str, list[str]]
) -> dict[str, Any]:
    """Return the changed fields of an item and their new values.

    :param item: the present record of the item.
    :param values: the values of all options that are not for Dublin Core.
    :param elements: the values of the options for Dublin Core.
    :raises FieldError: if the value of an option is wrong; the error names the option.
    """
    from flask_ibi_archive.core.records import values as fields

    parsers: dict[str, tuple[str, Callable[[str, Any], Any]]] = {
        "language": ("language", fields.parse_language),
        "no_language": ("language", lambda name, value: None),
        "content_type": ("content_type", lambda name, value: value),
        "file_list": ("list_files", fields.parse_flag),
        "transferable": ("transferable", fields.parse_flag),
        "embargo": ("embargo", fields.parse_day),
        "no_embargo": ("embargo", lambda name, value: None),
        "next_edition": ("next_edition", fields.parse_ibi),
        "no_next_edition": ("next_edition", lambda name, value: None),
        "no_translations": ("translations", lambda name, value: {}),
        "target_file": ("target_file", fields.parse_path),
        "same_as": (
            "same_as",
            lambda name, value: fields.parse_same_as(name, list(value)),
        ),
        "no_same_as": ("same_as", lambda name, value: ()),
    }
    changes = {
        field: parse(_format_option(name), values[name])
        for name, (field, parse) in parsers.items()
        if name in values
    }
    if values.keys() & {"networks", "others", "open"}:
        changes["access"] = _build_access(item.access, values)
    if "translations" in values:
        new = _parse_translations(values["translations"])
        changes["translations"] = {**item.translations, **new}
    if is_described(item.metadata) and not values.keys() & METADATA_OPTIONS:
        changes.update(_build_work_fields(elements))
    elif elements or values.keys() & METADATA_OPTIONS:
        changes["metadata"] = _build_metadata(item, values, elements)
    return changes


def is_described(metadata: MetadataItem | MetadataAddress | DublinCoreMetadata | None) -> bool:
    """Return whether metadata are a description of a work, and not Dublin Core only."""
    return getattr(metadata, "work", None) is not None


def _build_work_fields(elements: Mapping[str, list[str]]) -> dict[str, Any]:
    """Return the fields of a description that the options for Dublin Core state.

    :raises FieldError: if an option that sets one value is repeated.
    """
    from flask_ibi_archive.core.records.description import parse_container
    from flask_ibi_archive.core.records.values import FieldError, parse_licence

    changes: dict[str, Any] = {}
    for name, texts in elements.items():
        stated = [] if texts == [""] else texts
        if name == "rights":
            licences = [text for text in stated if parse_licence(text)]
            changes["rights"] = [text for text in stated if text not in licences]
            changes["licence"] = licences[0] if licences else None
        elif name in LIST_FIELDS:
            changes[LIST_FIELDS[name]] = stated
        elif len(texts) > 1:
            raise FieldError(f"--{name}", "the description of the item has one; give it once")
        else:
            is_container = name == "source" and stated
            changes[SINGLE_FIELDS[name]] = (
                parse_container(stated[0]) if is_container else next(iter(stated), None)
            )
    return changes


def _build_access(old: AccessRule | None, values: Mapping[str, Any]) -> AccessRule | None:
    """Return the access rule that the options state. Omitted options keep the values of ``old``."""
    from flask_ibi_archive.core.records.record import AccessRule
    from flask_ibi_archive.core.records.values import FieldError, parse_network

    if "open" in values:
        return None
    networks = tuple(parse_network("--network", network) for network in values.get("networks", ()))
    networks = networks or (old.networks if old else ())
    if not networks:
        raise FieldError(
            "--others", "everybody has access to the files; restrict the access with --network"
        )
    return AccessRule(networks, values.get("others") or (old.others if old else "metadata"))


def _parse_translations(pairs: tuple[str, ...]) -> dict[str, str]:
    """Return the identifiers of translations by language, from texts such as ``pt=<ibi>``."""
    from flask_ibi_archive.core.records.values import (
        FieldError,
        parse_ibi,
        parse_language,
        quoted,
    )

    translations: dict[str, str] = {}
    for pair in pairs:
        language, equals, ibi = pair.partition("=")
        if not equals:
            raise FieldError(
                "--translation", f"{quoted(pair)} must be a pair like pt=8JMKD3MGP8W/35MME4E"
            )
        language = parse_language("--translation", language)
        if language in translations:
            raise FieldError("--translation", f"{language} is given twice; give each language once")
        translations[language] = parse_ibi("--translation", read_ibi(ibi))
    return translations


def _build_metadata(
    item: Record, values: Mapping[str, Any], elements: Mapping[str, list[str]]
) -> MetadataItem | MetadataAddress | DublinCoreMetadata | None:
    from flask_ibi_archive.core.records import values as fields
    from flask_ibi_archive.core.records.record import MetadataAddress, MetadataItem

    if "metadata_item" in values:
        return MetadataItem(fields.parse_ibi("--metadata-item", values["metadata_item"]))
    if "metadata_url" in values:
        return MetadataAddress(fields.parse_url("--metadata-url", values["metadata_url"]))
    return _replace_elements(None if "no_metadata" in values else item.metadata, elements)


def _replace_elements(
    old: MetadataItem | MetadataAddress | DublinCoreMetadata | None,
    elements: Mapping[str, list[str]],
) -> DublinCoreMetadata | None:
    """Return Dublin Core metadata after a change of elements; None if no element remains.

    :param old: the present metadata of the item.
    :param elements: the new values by element. The single value "" removes the element.
    :raises StorageError: if the present metadata are not Dublin Core.
    """
    from flask_ibi_archive.core.records.record import (
        ELEMENTS,
        DublinCoreMetadata,
        MetadataAddress,
        MetadataItem,
        parse_dublin_core,
    )
    from flask_ibi_archive.errors import StorageError

    if isinstance(old, MetadataItem | MetadataAddress):
        address = old.ibi if isinstance(old, MetadataItem) else old.url
        raise StorageError(
            f"the metadata of the item are at {address}; change the metadata there, or add "
            "--no-metadata to replace the metadata"
        )
    known = dict(old.elements) if old else {}
    filled = {name: values for name, values in elements.items() if values != [""]}
    new = parse_dublin_core("dc", filled) if filled else {}
    kept = {name: values for name, values in known.items() if name not in elements}
    changed = {**kept, **new}
    merged = {name: changed[name] for name in ELEMENTS if name in changed}
    return DublinCoreMetadata(merged) if merged else None


# --- identifier commands -----------------------------------------------------------------------


@click.command("mint")
@click.option(
    "-n", "count", default=1, type=click.IntRange(1, 1_000_000), help="The number of identifiers."
)
@json_option
def mint_command(count: int, as_json: bool) -> None:
    """Mint new identifiers.

    Prints one line for each identifier: the repository name, a tab and the IBIp. Prints the
    persistent URLs on standard error. With --json, the URLs are part of the JSON output. A minted
    identifier is never issued again, even if no item uses this identifier.

    \b
    Example:
      flask --app example_app ibi mint -n 3
    """
    archive = get_archive()
    standard_output()
    minted = archive.mint(count)
    warn_of_private_address(archive)
    if as_json:
        write_json_list(build_identifier_json(archive, identifiers) for identifiers in minted)
        return
    for identifiers in minted:
        write(f"{identifiers.rep}\t{identifiers.ibip}")
    if count == 1:
        say(f"persistent URL: {archive.persistent_url(minted[0])}")
    else:
        say(f"persistent URLs: {archive.persistent_url('')}IDENTIFIER")


@click.command("decode")
@click.argument("ibi", type=read_ibi)
@json_option
def decode_command(ibi: str, as_json: bool) -> None:
    """Show the address, port and date in an identifier.

    The address is a host name or an IP address.

    \b
    Example:
      flask ibi decode 8JMKD3MGP8W/34PGRBS
    """
    from flask_ibi_archive.core.identifiers import decode_identifier, format_date, parse_identifier

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
        write_json(known)
        return
    for name, value in known.items():
        write(f"{name} {value}")


@click.command("reserve")
@click.option(
    "-n", "count", type=click.IntRange(1, 10_000), help="The number of identifiers.  [default: 1]"
)
@click.option("--note", metavar="TEXT", help="A note on the purpose of the reservation.")
@click.option("--list", "listing", is_flag=True, help="List the reservations. Reserve nothing.")
@json_option
def reserve_command(count: int | None, note: str | None, listing: bool, as_json: bool) -> None:
    """Reserve identifiers for drafts.

    Prints one line for each identifier: the repository name, a tab and the IBIp. The command
    "add --reserved" gives a reserved identifier to an item. The command "release" ends the
    reservation. A reserved identifier is never issued again.

    --list prints one line for each reservation: repository name, IBIp, status (held, used or
    released), date and note, separated by tabs.

    \b
    Example:
      flask --app example_app ibi reserve --note "Thesis of Ana, to be printed on the cover"
      flask --app example_app ibi reserve --list
    """
    if listing:
        if count is not None or note is not None:
            raise click.UsageError("--list cannot be used with -n or --note")
        _write_reservations(as_json)
        return
    archive = get_archive()
    standard_output()
    warn_of_private_address(archive)
    reserved = []
    for _ in range(count or 1):
        identifiers = archive.reserve(note)
        if not as_json:
            write(f"{identifiers.rep}\t{identifiers.ibip}")
        reserved.append({"rep": identifiers.rep, "ibip": identifiers.ibip})
    if as_json:
        write_json(reserved)


def _write_reservations(as_json: bool) -> None:
    """Write all reservations, including those that are used or released."""
    from flask_ibi_archive.core.identifiers.dates import format_timestamp

    reservations = get_archive().reservations()
    if as_json:
        write_json(
            [
                {
                    "rep": reservation.rep,
                    "ibip": reservation.ibip,
                    "status": reservation.status,
                    "note": reservation.note,
                    "reserved_at": format_timestamp(reservation.reserved_at),
                    "settled_at": format_timestamp(reservation.settled_at),
                }
                for reservation in reservations
            ]
        )
        return
    for reservation in reservations:
        date = format_timestamp(reservation.reserved_at) or ""
        note = " ".join((reservation.note or "").split())
        write("\t".join([reservation.rep, reservation.ibip, reservation.status, date, note]))


@click.command("release")
@click.argument("ibis", metavar="IBI...", type=read_ibi, nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="Check the identifiers. Change nothing.")
def release_command(ibis: tuple[str, ...], dry_run: bool) -> None:
    """Release reserved identifiers forever.

    A released identifier is never used for an item. If one of the identifiers is not held, the
    command releases no identifier.

    \b
    Example:
      flask --app example_app ibi release 8JMKD3MGP8W/35MME4E
    """
    archive = get_archive()
    standard_output()
    for rep in _find_held_names(archive, ibis):
        if not dry_run:
            archive.release(rep)
        write(f"{'would release' if dry_run else 'released'} {rep}")


def _find_held_names(archive: Archive, ibis: Iterable[str]) -> list[str]:
    """Return the repository names of reservations, without repetition.

    :param ibis: the repository names or IBIps of the reservations.
    :raises StorageError: if an identifier is not reserved, or is already used or released.
    """
    from flask_ibi_archive.core.identifiers import parse_identifier
    from flask_ibi_archive.errors import StorageError

    known = {}
    for reservation in archive.reservations():
        known[reservation.rep] = known[reservation.ibip] = reservation
    chosen: dict[str, None] = {}
    for ibi in ibis:
        text = parse_identifier(ibi).text
        if text not in known:
            raise StorageError(f"{text} is not reserved; see flask ibi reserve --list")
        if known[text].status != "held":
            raise StorageError(f"the reservation of {text} was already {known[text].status}")
        chosen[known[text].rep] = None
    return list(chosen)


# --- works commands ----------------------------------------------------------------------------


#: The columns of the table of new identifiers.
COLUMNS = ("place", "key", "rep", "ibip", "url", "title")


def works_options(command: Any) -> Any:
    """Add the options for works without identifiers to a command."""
    options = [
        click.option(
            "--mint",
            is_flag=True,
            help="Import works without identifiers, and give each item new ones.",
        ),
        click.option(
            "--map",
            "mapped",
            multiple=True,
            metavar="FIELD=COLUMN",
            help="With --mint and CSV: the column that contains a field.",
        ),
        click.option(
            "--ignore",
            "ignored",
            multiple=True,
            metavar="COLUMN",
            help="With --mint and CSV: a column that is not read.",
        ),
        click.option(
            "--separator",
            default=";",
            show_default=True,
            help="With --mint and CSV: what separates several values in a cell.",
        ),
        click.option(
            "--identifiers",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="OUT.csv",
            help="With --mint: write the new identifiers to a table.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def import_works(
    source: str,
    files_folder: Path | None,
    mapped: Sequence[str],
    ignored: Sequence[str],
    separator: str,
    identifiers: Path | None,
    *,
    dry_run: bool,
    updates: bool,
    take_back: bool,
) -> None:
    """Import a file of works, and give each item new identifiers."""
    from flask_ibi_archive.archive.items.import_export import (
        TABLES,
        WorksImporter,
        open_source,
        read_works,
    )

    if source == "-":
        raise click.UsageError("--mint requires a file, whose name says what it contains.")
    if (mapped or ignored) and not source.lower().endswith(TABLES):
        raise click.UsageError("--map and --ignore are for the columns of a CSV file.")
    columns = dict(map(_parse_column, mapped))
    archive = get_archive()
    archive.check_has_items()
    context = archive.context  # fails if there is no Archive, before anything is read
    standard_output()
    errors = 0

    def write_error(error: RecordError) -> None:
        nonlocal errors
        errors += 1
        bars.clear()
        write(str(error))

    with (
        open_source(source, io.BytesIO(), files_folder) as opened,
        Bars(check="Checking", work="Importing") as bars,
        _write_identifiers(archive, None if dry_run else identifiers) as on_identified,
    ):
        works = read_works(opened, columns, separator, ignored)
        importer = WorksImporter(
            context,
            write_error,
            dry_run=dry_run,
            updates=updates,
            take_back=take_back,
            on_identified=on_identified,
            progress=bars.show if bars.shown else None,
        )
        # the garbage collector must not examine the objects of the app again and again
        gc.freeze()
        try:
            counts = importer.run(opened, works, Path(source).name)
        finally:
            gc.unfreeze()
        if counts is None:
            found = "1 error" if errors == 1 else f"{errors} errors"
            raise click.ClickException(f"{source} has {found}; nothing was changed")
    write_counts(counts, "would be " if dry_run else "")


def write_counts(counts: Counts, would: str) -> None:
    """Write the counts of an import; ``would`` precedes each word after a dry run."""
    write(
        f"{would}added {counts.added}, {would}updated {counts.updated}, "
        f"{would}skipped {counts.skipped}"
    )


def _parse_column(text: str) -> tuple[str, str]:
    """Return the name of a column and its field.

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
    archive: Archive, path: Path | None
) -> Iterator[Callable[[IdentifiedWork], None] | None]:
    """Yield a function that adds a row to the table of identifiers; None without a table.

    An existing file is replaced when the import is complete.
    """
    if path is None:
        yield None
        return
    from flask_ibi_archive.server.files import new_file

    with new_file(path.resolve(), mode=0o666) as stream:
        # spreadsheets recognise UTF-8 by the mark at the beginning
        text = io.TextIOWrapper(stream, "utf-8-sig", newline="", write_through=True)
        rows = csv.writer(text)
        rows.writerow(COLUMNS)

        def add(work: IdentifiedWork) -> None:
            url = archive.persistent_url(work.ibip)
            rows.writerow((work.place, work.key, work.rep, work.ibip, url, work.title))

        yield add
        text.detach()


# --- record commands ---------------------------------------------------------------------------


#: The number of lines that export writes to standard output at a time.
LINES_PER_WRITE = 400
#: The number of items after which the progress bar is updated.
ITEMS_PER_UPDATE = 100


@click.command("import")
@click.argument("source", metavar="FILE")
@click.option(
    "--on-conflict",
    type=click.Choice(["error", "skip", "update"]),
    default="error",
    show_default=True,
    help="What to do with an item that already exists.",
)
@click.option(
    "--take-back",
    is_flag=True,
    help="With --on-conflict update: items whose Originals are elsewhere may become Originals.",
)
@click.option(
    "--files-folder",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help='The folder of the files that "source" fields name, instead of the folder of FILE.',
)
@click.option("--dry-run", is_flag=True, help="Check the file. Change nothing.")
@works_options
def import_command(
    source: str,
    on_conflict: str,
    take_back: bool,
    files_folder: Path | None,
    dry_run: bool,
    mint: bool,
    mapped: tuple[str, ...],
    ignored: tuple[str, ...],
    separator: str,
    identifiers: Path | None,
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

    \b
    Example:
      flask --app example_app ibi import example_app/records/items.jsonl
      flask --app example_app ibi import items.jsonl --files-folder .
      flask --app example_app ibi import works.csv --mint --map title=Obra --identifiers new.csv
    """
    from flask_ibi_archive.archive.items.import_export import open_source

    if mint:
        import_works(
            source,
            files_folder,
            mapped,
            ignored,
            separator,
            identifiers,
            dry_run=dry_run,
            updates=on_conflict == "update",
            take_back=take_back,
        )
        return
    if mapped or ignored or identifiers:
        raise click.UsageError("--map, --ignore and --identifiers require --mint.")
    archive = get_archive()
    archive.check_has_items()
    archive_id = archive.served().id  # fails if there is no Archive, before anything is read
    standard_output()
    stream = standard_input() if source == "-" else io.BytesIO()
    with open_source(source, stream, files_folder) as opened, Bars(work="Importing") as bars:
        report = ImportReport(opened, bars, dry_run)
        counts = report.run(archive, archive_id, on_conflict=on_conflict, take_back=take_back)
    report.finish(counts)


class ImportReport:
    """Runs an import, and writes the errors and the counts of the import."""

    def __init__(self, source: ImportSource, bars: Bars, dry_run: bool) -> None:
        self._source = source
        self._bars = bars
        self._dry_run = dry_run
        self._errors = 0

    def run(self, archive: Archive, archive_id: int, **options: Any) -> Counts | None:
        """Run the import and return its counts; None if a dry run has found errors.

        :raises RecordError: if a record is wrong and this is not a dry run.
        """
        from flask_ibi_archive.archive.items.import_export import Importer
        from flask_ibi_archive.errors import RecordError

        importer = Importer(
            archive.database,
            archive_id,
            archive.files_folder,
            clock=archive.context.now,
            dry_run=self._dry_run,
            progress=partial(self._bars.show, "work") if self._bars.shown else None,
            on_error=self.write_error,
            notifier=archive.notifier,
            **options,
        )
        # the garbage collector must not examine the objects of the app again and again
        gc.freeze()
        try:
            counts = importer.run(self._source)
        except RecordError as error:
            if not self._dry_run:
                raise
            self.write_error(error)  # a dry run also ends after some errors
        finally:
            gc.unfreeze()
        return None if self._errors else counts

    def write_error(self, error: RecordError) -> None:
        """Write an error to standard output and count the error."""
        self._errors += 1
        self._bars.clear()
        write(str(error))

    def finish(self, counts: Counts | None) -> None:
        """Write the counts.

        :param counts: None if there were errors.
        :raises ClickException: if there were errors.
        """
        if counts is None:
            errors = "1 error" if self._errors == 1 else f"{self._errors} errors"
            raise click.ClickException(f"{self._source.name} has {errors}; nothing was changed")
        write_counts(counts, "would be " if self._dry_run else "")


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
    from flask_ibi_archive.core.records.lines import format_line

    archive = get_archive()
    exported = archive.list_records()
    # closing() ends the transaction of the generator, also after an error
    with closing(exported), Bars(items="Exporting") as bars:
        records: Iterator[Record] = exported
        if files is not None:
            base = Path() if target == "-" else Path(target).resolve().parent
            records = exporting.copy_files(records, files.resolve(), base)
        counted = _show_progress(records, archive, bars, target)
        texts = (
            exporting.format_with_counts(counted, archive.database, archive.served().id)
            if with_counts
            else map(format_line, counted)
        )
        lines = (text.encode() + b"\n" for text in texts)
        if target == "-":
            while block := b"".join(islice(lines, LINES_PER_WRITE)):
                write(block, nl=False)
        else:
            _write_file(Path(target), lines)


def _show_progress(
    records: Iterator[Record], archive: Archive, bars: Bars, target: str
) -> Iterator[Record]:
    """Yield the records and show a progress bar.

    There is no bar if the records themselves are written to a terminal.
    """
    if target == "-" and standard_output().isatty():
        yield from records
        return
    total = archive.items.count()
    if total is None:
        yield from records
        return
    for number, record in enumerate(records, 1):
        yield record
        if number % ITEMS_PER_UPDATE == 0 or number == total:
            bars.show("items", number, total)


def _write_file(path: Path, lines: Iterator[bytes]) -> None:
    """Write lines to a file, a pipe or a device.

    An existing file is replaced when all lines are written.

    :raises StorageError: if the file cannot be written.
    """
    from flask_ibi_archive.errors import StorageError
    from flask_ibi_archive.server.files import new_file

    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as stream:
                stream.writelines(lines)
            return
    except OSError as error:
        raise StorageError(f"{path} can't be written: {error.strerror}") from error
    # resolve() keeps a symbolic link; the umask restricts the permissions of a new file
    with new_file(path.resolve(), mode=0o666) as stream:
        stream.writelines(lines)
