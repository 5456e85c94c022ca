"""Depositing an item: add."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from flask.cli import with_appcontext

from flask_ibi_archive.cli.group import (
    standard_output,
    the_archive,
    warn_of_private_address,
    write,
)

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
    """Give a command the options --title, --creator and so on, each of which may be repeated."""
    for element in reversed(OPTIONS):
        command = click.option(f"--{element}", f"dc_{element}", multiple=True)(command)
    return command


@click.command("add")
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
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
@with_appcontext
def add_command(
    files: tuple[Path, ...],
    language: str | None,
    content_type: str,
    networks: tuple[str, ...],
    others: str,
    no_file_list: bool,
    **elements: tuple[str, ...],
) -> None:
    """Deposit an item from local FILES, the first of which is its target file.

    Prints its identifiers: repository name, tab, IBIp. Options with Dublin Core may be repeated.

    \b
    Example:
      flask --app example_app ibi add report.pdf data.csv \\
          --title "Annual report" --creator "Banon, Gerald" --language en
    """
    from flask_ibi_archive.records import fields, parse
    from flask_ibi_archive.records.record import AccessRule, DublinCoreMetadata, ItemRecord

    archive = the_archive()
    try:
        given = {name[3:]: list(values) for name, values in elements.items() if values}
        record = ItemRecord(
            content_type=content_type,
            language=None if language is None else fields.a_language("--language", language),
            metadata=(DublinCoreMetadata(parse.parse_dublin_core("dc", given)) if given else None),
            access=(
                AccessRule(tuple(fields.a_network("--network", one) for one in networks), others)
                if networks
                else None
            ),
            list_files=not no_file_list,
        )
    except fields.FieldError as error:
        raise click.UsageError(str(error)) from error
    standard_output()
    minted = archive.deposit(record, files)
    warn_of_private_address(archive)
    write(f"{minted.rep}\t{minted.ibip}")
