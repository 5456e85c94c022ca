"""Changing what is known of an item: edit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
from flask.cli import with_appcontext

from flask_ibi_archive.cli.changes import changes_of, option_of
from flask_ibi_archive.cli.deposit import OPTIONS, dublin_core_options, elements_of
from flask_ibi_archive.cli.group import standard_output, the_archive, write
from flask_ibi_archive.cli.items import find_item
from flask_ibi_archive.cli.parameters import read_ibi

#: What is added to an item and removed from it, one by one.
SINGLE = ("add_files", "remove_files", "add_aliases", "remove_aliases")

#: The flags whose other side is an option too.
TWO_WAY = ("file_list", "transferable")

#: Options that contradict each other.
APART = (
    ("language", "no_language"),
    ("networks", "open"),
    ("others", "open"),
    ("next_edition", "no_next_edition"),
    ("translations", "no_translations"),
    ("files", "add_files"),
    ("files", "remove_files"),
    ("metadata_item", "metadata_url", "no_metadata"),
    *(("metadata_item", f"dc_{name}") for name in OPTIONS),
    *(("metadata_url", f"dc_{name}") for name in OPTIONS),
)


def item_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command the options that say what an item is to be; none given is None, False or ()."""
    options = [
        click.option("--language", help="The language of the item, xx or xx-YY."),
        click.option("--no-language", is_flag=True, help="It states no language."),
        click.option("--content-type", type=click.Choice(["Data", "Metadata"])),
        click.option(
            "--network", "networks", multiple=True, help="Its files are for this network."
        ),
        click.option(
            "--others",
            type=click.Choice(["metadata", "none"]),
            help="What users outside the networks get.",
        ),
        click.option("--open", is_flag=True, help="Its files are for everybody."),
        click.option(
            "--file-list/--no-file-list",
            default=None,
            help="Divulge the list of its files, or not.",
        ),
        click.option(
            "--transferable/--not-transferable",
            default=None,
            help="It may go to another Archive, or not.",
        ),
        click.option("--next-edition", type=read_ibi, metavar="IBI", help="The edition after it."),
        click.option("--no-next-edition", is_flag=True, help="It is the last edition."),
        click.option(
            "--translation",
            "translations",
            metavar="xx=IBI",
            multiple=True,
            help="Its translation into a language.",
        ),
        click.option("--no-translations", is_flag=True, help="It is no translation of anything."),
        click.option(
            "--metadata-item", type=read_ibi, metavar="IBI", help="Its metadata are this item."
        ),
        click.option("--metadata-url", metavar="URL", help="Its metadata are at this address."),
        click.option("--no-metadata", is_flag=True, help="Take its metadata away."),
        click.option(
            "--file",
            "files",
            multiple=True,
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="Its files are this one, and those of further --file; the old ones go.",
        ),
        click.option(
            "--add-file",
            "add_files",
            multiple=True,
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="Add this file after those that it has.",
        ),
        click.option(
            "--remove-file",
            "remove_files",
            metavar="PATH",
            multiple=True,
            help="Remove the file with this path from it.",
        ),
        click.option(
            "--add-alias",
            "add_aliases",
            metavar="IBI",
            type=read_ibi,
            multiple=True,
            help="Add this further identifier.",
        ),
        click.option(
            "--remove-alias",
            "remove_aliases",
            metavar="IBI",
            type=read_ibi,
            multiple=True,
            help="Remove this alias, which it bears by mistake.",
        ),
        click.option("--target-file", metavar="PATH", help="Which of its files stands for it."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.command("edit")
@click.argument("ibi", type=read_ibi)
@dublin_core_options
@item_options
@with_appcontext
def edit_command(ibi: str, **options: Any) -> None:
    """Change the record or the files of an item.

    What no option names stays as it is. An option with Dublin Core replaces the element (--subject
    a
    --subject b), an empty one takes it away (--subject ""); with --no-metadata the metadata begin
    anew. All the changes are made, or none.

    \b
    Example:
      flask --app example_app ibi edit 8JMKD3MGP8W/35MME4E --title "Annual report" --language en
      flask --app example_app ibi edit 8JMKD3MGP8W/35MME4E --file report.pdf --file data.csv
      flask --app example_app ibi edit 8JMKD3MGP8W/35MME4E --remove-file a.csv --add-file a.csv
    """
    from flask_ibi_archive.records.fields import FieldError

    given = {
        name: value
        for name, value in options.items()
        if value is not None and value != () and (value is not False or name in TWO_WAY)
    }
    _check_together(given)
    archive = the_archive()
    item = find_item(archive, ibi)
    try:
        changes = changes_of(item.record, given, elements_of(options))
    except FieldError as error:
        raise click.UsageError(str(error)) from error
    standard_output()
    single = {name: given[name] for name in SINGLE if name in given}
    archive.edit(ibi, files=given.get("files"), **single, **changes)
    write(f"edited {item.record.identifiers[0]}")


def _check_together(given: Mapping[str, Any]) -> None:
    """Check which options stand side by side.

    :raises UsageError: if there are none, or two that contradict each other.
    """
    if not given:
        raise click.UsageError("nothing is to be changed: name what, for example --title")
    for names in APART:
        found = [option_of(name) for name in names if name in given]
        if len(found) > 1:
            raise click.UsageError(f"{' and '.join(found)} exclude each other")
