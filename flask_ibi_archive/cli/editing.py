"""The command edit, which changes the record or the files of an item."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from flask.cli import with_appcontext

from flask_ibi_archive.cli.deposit import OPTIONS, dublin_core_options, get_elements
from flask_ibi_archive.cli.group import read_ibi, standard_output, the_archive, write
from flask_ibi_archive.cli.items import find_item

if TYPE_CHECKING:
    from flask_ibi_archive.records.record import (
        AccessRule,
        DublinCoreMetadata,
        ItemRecord,
        MetadataAddress,
        MetadataItem,
    )

#: The options that add or remove single files and aliases.
SINGLE = ("add_files", "remove_files", "add_aliases", "remove_aliases")

#: Flags with a positive and a negative form.
TWO_WAY = ("file_list", "transferable")

#: Parameters whose option may be repeated; the option has the singular as its name.
REPEATED = ("networks", "translations", "files", *SINGLE)

#: Options that exclude each other.
EXCLUSIVE = (
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

FILE: dict[str, Any] = {
    "type": click.Path(exists=True, dir_okay=False, path_type=Path),
    "multiple": True,
}
FLAG: dict[str, Any] = {"is_flag": True}
IBI: dict[str, Any] = {"type": read_ibi, "metavar": "IBI"}

#: The options that describe the changes; without an option, its value is None, False or ().
ITEM_OPTIONS: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    (("--language",), {"help": "The language of the item, xx or xx-YY."}),
    (("--no-language",), {**FLAG, "help": "Remove its language."}),
    (("--content-type",), {"type": click.Choice(["Data", "Metadata"])}),
    (
        ("--network", "networks"),
        {"multiple": True, "help": "Restrict access to its files to this network (CIDR)."},
    ),
    (
        ("--others",),
        {
            "type": click.Choice(["metadata", "none"]),
            "help": "What users outside the networks can see.",
        },
    ),
    (("--open",), {**FLAG, "help": "Give everybody access to its files."}),
    (
        ("--file-list/--no-file-list",),
        {"default": None, "help": "Publish the list of its files, or not."},
    ),
    (
        ("--transferable/--not-transferable",),
        {"default": None, "help": "Allow its transfer to another Archive, or not."},
    ),
    (("--next-edition",), {**IBI, "help": "Its next edition."}),
    (("--no-next-edition",), {**FLAG, "help": "Make it the last edition."}),
    (
        ("--translation", "translations"),
        {"metavar": "xx=IBI", "multiple": True, "help": "Its translation into a language."},
    ),
    (("--no-translations",), {**FLAG, "help": "Remove its translations."}),
    (("--metadata-item",), {**IBI, "help": "The item that is its metadata."}),
    (("--metadata-url",), {"metavar": "URL", "help": "The URL of its metadata."}),
    (("--no-metadata",), {**FLAG, "help": "Remove its metadata."}),
    (
        ("--file", "files"),
        {**FILE, "help": "Replace its files by this file; repeat for more files."},
    ),
    (("--add-file", "add_files"), {**FILE, "help": "Add this file after the others."}),
    (
        ("--remove-file", "remove_files"),
        {"metavar": "PATH", "multiple": True, "help": "Remove the file with this path."},
    ),
    (
        ("--add-alias", "add_aliases"),
        {**IBI, "multiple": True, "help": "Add this further identifier."},
    ),
    (
        ("--remove-alias", "remove_aliases"),
        {**IBI, "multiple": True, "help": "Remove this alias, which was added by mistake."},
    ),
    (("--target-file",), {"metavar": "PATH", "help": "The file that a persistent URL leads to."}),
)


def item_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add to a command the options that describe the changes."""
    for names, attributes in reversed(ITEM_OPTIONS):
        command = click.option(*names, **attributes)(command)
    return command


@click.command("edit")
@click.argument("ibi", type=read_ibi)
@dublin_core_options
@item_options
@with_appcontext
def edit_command(ibi: str, **options: Any) -> None:
    """Change the record or the files of an item.

    Fields that no option names remain unchanged. An option for Dublin Core replaces all values of
    its element (--subject a --subject b); an empty value removes the element (--subject ""). With
    --no-metadata, all elements are removed first. Either all changes are made, or none.

    \b
    Example:
      flask --app example_app ibi edit 8JMKD3MGP8W/35MME4E --title "Annual report" --language en
      flask --app example_app ibi edit 8JMKD3MGP8W/35MME4E --file report.pdf --file data.csv
      flask --app example_app ibi edit 8JMKD3MGP8W/35MME4E --remove-file a.csv --add-file data.csv
    """
    from flask_ibi_archive.records.fields import FieldError

    values = {
        name: value
        for name, value in options.items()
        if value is not None and value != () and (value is not False or name in TWO_WAY)
    }
    _check_options(values)
    archive = the_archive()
    item = find_item(archive, ibi)
    try:
        changes = build_changes(item.record, values, get_elements(options))
    except FieldError as error:
        raise click.UsageError(str(error)) from error
    standard_output()
    single = {name: values[name] for name in SINGLE if name in values}
    archive.edit(ibi, files=values.get("files"), **single, **changes)
    write(f"edited {item.record.identifiers[0]}")


def _check_options(values: Mapping[str, Any]) -> None:
    """Check that at least one option is used, and that no two options exclude each other.

    :raises UsageError: if the check fails.
    """
    if not values:
        raise click.UsageError("no option says what to change; use for example --title")
    for names in EXCLUSIVE:
        found = [_format_option(name) for name in names if name in values]
        if len(found) > 1:
            raise click.UsageError(f"{' and '.join(found)} exclude each other")


def _format_option(name: str) -> str:
    """Return the option that sets a parameter."""
    if name in REPEATED:
        name = name.removesuffix("es" if name.endswith("aliases") else "s")
    return f"--{name.removeprefix('dc_').replace('_', '-')}"


def build_changes(
    item: ItemRecord, values: Mapping[str, Any], elements: Mapping[str, list[str]]
) -> dict[str, Any]:
    """Return the new values of the fields that options change.

    :param values: the values of the options, except those for Dublin Core.
    :param elements: the values of the options for Dublin Core.
    :raises FieldError: if the value of an option is wrong; the error names the option.
    """
    from flask_ibi_archive.records import fields

    parsers: dict[str, tuple[str, Callable[[str, Any], Any]]] = {
        "language": ("language", fields.parse_language),
        "no_language": ("language", lambda name, value: None),
        "content_type": ("content_type", lambda name, value: value),
        "file_list": ("list_files", fields.parse_flag),
        "transferable": ("transferable", fields.parse_flag),
        "next_edition": ("next_edition", fields.parse_ibi),
        "no_next_edition": ("next_edition", lambda name, value: None),
        "no_translations": ("translations", lambda name, value: {}),
        "target_file": ("target_file", fields.parse_path),
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
    if elements or values.keys() & {"metadata_item", "metadata_url", "no_metadata"}:
        changes["metadata"] = _build_metadata(item, values, elements)
    return changes


def _build_access(old: AccessRule | None, values: Mapping[str, Any]) -> AccessRule | None:
    from flask_ibi_archive.records.fields import FieldError, parse_network
    from flask_ibi_archive.records.record import AccessRule

    if "open" in values:
        return None
    networks = tuple(parse_network("--network", one) for one in values.get("networks", ()))
    networks = networks or (old.networks if old else ())
    if not networks:
        raise FieldError(
            "--others", "everybody has access to its files; restrict the access with --network"
        )
    return AccessRule(networks, values.get("others") or (old.others if old else "metadata"))


def _parse_translations(pairs: tuple[str, ...]) -> dict[str, str]:
    from flask_ibi_archive.records.fields import FieldError, parse_ibi, parse_language, quoted

    found: dict[str, str] = {}
    for one in pairs:
        language, equals, ibi = one.partition("=")
        if not equals:
            raise FieldError(
                "--translation", f"{quoted(one)} must be a pair like pt=8JMKD3MGP8W/35MME4E"
            )
        language = parse_language("--translation", language)
        if language in found:
            raise FieldError("--translation", f"{language} is given twice")
        found[language] = parse_ibi("--translation", read_ibi(ibi))
    return found


def _build_metadata(
    item: ItemRecord, values: Mapping[str, Any], elements: Mapping[str, list[str]]
) -> MetadataItem | MetadataAddress | DublinCoreMetadata | None:
    from flask_ibi_archive.records import fields
    from flask_ibi_archive.records.record import MetadataAddress, MetadataItem

    if "metadata_item" in values:
        return MetadataItem(fields.parse_ibi("--metadata-item", values["metadata_item"]))
    if "metadata_url" in values:
        return MetadataAddress(fields.parse_url("--metadata-url", values["metadata_url"]))
    return _replace_elements(None if "no_metadata" in values else item.metadata, elements)


def _replace_elements(
    old: MetadataItem | MetadataAddress | DublinCoreMetadata | None,
    elements: Mapping[str, list[str]],
) -> DublinCoreMetadata | None:
    """Return Dublin Core with new values of some elements; None if no element remains."""
    from flask_ibi_archive.errors import StorageError
    from flask_ibi_archive.records import parse
    from flask_ibi_archive.records.dublin_core import ELEMENTS
    from flask_ibi_archive.records.record import DublinCoreMetadata, MetadataAddress, MetadataItem

    if isinstance(old, MetadataItem | MetadataAddress):
        place = old.ibi if isinstance(old, MetadataItem) else old.url
        raise StorageError(
            f"its metadata are at {place}; change them there, or replace them with --no-metadata"
        )
    known = dict(old.elements) if old else {}
    filled = {name: values for name, values in elements.items() if values != [""]}
    new = parse.parse_dublin_core("dc", filled) if filled else {}
    merged = {
        name: new[name] if name in new else known[name]
        for name in ELEMENTS
        if name in new or (name in known and name not in elements)
    }
    return DublinCoreMetadata(merged) if merged else None
