"""Depositing an item: add."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from flask.cli import with_appcontext

from flask_ibi_archive.cli.group import (
    json_option,
    say,
    standard_output,
    the_archive,
    warn_of_private_address,
    write,
    write_json,
)
from flask_ibi_archive.cli.parameters import read_ibi

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive_service import ArchiveService
    from flask_ibi_archive.archive.minting import Minted
    from flask_ibi_archive.records.record import ItemRecord

#: The Dublin Core elements that have an option of their own; --language is the item's language.
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


def dublin_core_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command the options --title, --creator and so on, each of which may be repeated."""
    for element in reversed(OPTIONS):
        command = click.option(f"--{element}", f"dc_{element}", multiple=True)(command)
    return command


def elements_of(options: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the elements of Dublin Core that stand among the options of a command."""
    return {name: list(options[f"dc_{name}"]) for name in OPTIONS if options[f"dc_{name}"]}


@click.command("add")
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option(
    "--edition-of", type=read_ibi, metavar="IBI", help="Add it as the next edition of this item."
)
@click.option(
    "--translation-of",
    type=read_ibi,
    metavar="IBI",
    help="Add it as a translation (--language) of this item.",
)
@click.option(
    "--reserved",
    type=read_ibi,
    metavar="IBI",
    help="Give it this identifier, which reserve has given.",
)
@dublin_core_options
@click.option("--language", help="The language of the item, xx or xx-YY.")
@click.option("--content-type", type=click.Choice(["Data", "Metadata"]), default="Data")
@click.option("--network", "networks", multiple=True, help="Open its files to this network (CIDR).")
@click.option(
    "--others",
    type=click.Choice(["metadata", "none"]),
    default="metadata",
    help="What users outside the networks get.",
)
@click.option("--no-file-list", is_flag=True, help="Don't divulge the list of its files.")
@json_option
@with_appcontext
def add_command(
    files: tuple[Path, ...],
    edition_of: str | None,
    translation_of: str | None,
    reserved: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Deposit an item from local files.

    The first of FILES is its target file. Prints its identifiers: repository name, tab, IBIp; on
    standard error its persistent URL (with --json it is in the data). Options with Dublin Core may
    be repeated. A new edition and a translation are items of their own: they have what is given
    here, nothing of the other.

    \b
    Example:
      flask --app example_app ibi add report.pdf data.csv \\
          --title "Annual report" --creator "Banon, Gerald" --language en
      flask --app example_app ibi add report.pdf --translation-of 8JMKD3MGP8W/35MME4E \\
          --title "Relatório anual" --language pt
    """
    if edition_of is not None and translation_of is not None:
        raise click.UsageError(
            "--edition-of and --translation-of exclude each other; a translation of the new edition is "
            "added when that is there"
        )
    if translation_of is not None and options["language"] is None:
        raise click.UsageError("--translation-of needs --language: the one translated into")
    archive = the_archive()
    record = _record_of(options)
    edition_of, translation_of, reserved = map(_canonical, (edition_of, translation_of, reserved))
    standard_output()
    minted = _deposit(archive, record, files, edition_of, translation_of, reserved)
    if reserved is None:
        warn_of_private_address(archive)
    if as_json:
        write_json(facts_of(archive, minted))
        return
    write(f"{minted.rep}\t{minted.ibip}")
    say(f"persistent URL: {archive.persistent_url(minted.rep)}")


def facts_of(archive: ArchiveService, minted: Minted) -> dict[str, str]:
    """Return new identifiers and their persistent URL, for JSON."""
    return {
        "rep": minted.rep,
        "ibip": minted.ibip,
        "persistent_url": archive.persistent_url(minted.rep),
    }


def _canonical(ibi: str | None) -> str | None:
    """Return an identifier in canonical case, where there is one.

    :raises IdentifierError: if it is none.
    """
    from flask_ibi_archive.identifiers import parse_identifier

    return None if ibi is None else parse_identifier(ibi).text


def _record_of(options: Mapping[str, Any]) -> ItemRecord:
    """Return what the options say of an item.

    :raises UsageError: naming the option that is wrong.
    """
    from flask_ibi_archive.records import fields, parse
    from flask_ibi_archive.records.record import AccessRule, DublinCoreMetadata, ItemRecord

    elements, language = elements_of(options), options["language"]
    networks = options["networks"]
    try:
        return ItemRecord(
            content_type=options["content_type"],
            language=None if language is None else fields.parse_language("--language", language),
            metadata=(
                DublinCoreMetadata(parse.parse_dublin_core("dc", elements)) if elements else None
            ),
            access=(
                AccessRule(
                    tuple(fields.parse_network("--network", one) for one in networks),
                    options["others"],
                )
                if networks
                else None
            ),
            list_files=not options["no_file_list"],
        )
    except fields.FieldError as error:
        raise click.UsageError(str(error)) from error


def _deposit(
    archive: ArchiveService,
    record: ItemRecord,
    files: Sequence[Path],
    edition_of: str | None,
    translation_of: str | None,
    reserved: str | None,
) -> Minted:
    if edition_of is not None:
        return archive.new_edition(edition_of, record, files, reserved=reserved)
    if translation_of is not None:
        return archive.add_translation(translation_of, record, files, reserved=reserved)
    return archive.deposit(record, files, reserved=reserved)
