"""The command add. It deposits an item from local files."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flask_ibi_archive.server.commands.group import (
    get_archive,
    json_option,
    read_ibi,
    warn_of_private_address,
)
from flask_ibi_archive.server.commands.terminal import say, standard_output, write, write_json

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
        if cause.field.startswith("access.networks"):
            return f"--network: {cause.reason}"
        if found := re.match(r"metadata\.dc\.(\w+)", cause.field):
            return f"--{found[1]}: {cause.reason}"
    return None
