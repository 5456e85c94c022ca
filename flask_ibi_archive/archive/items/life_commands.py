"""The commands add, copy, transfer and delete: the life of an item."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
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
    confirm,
    say,
    standard_output,
    write,
    write_json,
)

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive
    from flask_ibi_archive.archive.items.minting import Minted
    from flask_ibi_archive.archive.items.operations.description import ItemRecord

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
    from flask_ibi_archive.core.records.fields import FieldError

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
