"""The command edit. It changes the record or the files of an item."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flask_ibi_archive.archive.items import life_commands
from flask_ibi_archive.server.commands.group import find_item, get_archive, read_ibi
from flask_ibi_archive.server.commands.terminal import standard_output, write

if TYPE_CHECKING:
    from flask_ibi_archive.core.records.record import (
        AccessRule,
        DublinCoreMetadata,
        MetadataAddress,
        MetadataItem,
        Record,
    )

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
    *(("metadata_item", f"dc_{name}") for name in life_commands.OPTIONS),
    *(("metadata_url", f"dc_{name}") for name in life_commands.OPTIONS),
)

FILES: dict[str, Any] = {
    "type": click.Path(exists=True, dir_okay=False, path_type=Path),
    "multiple": True,
}
IBI: dict[str, Any] = {"type": read_ibi, "metavar": "IBI"}


@click.command("edit")
@click.argument("ibi", type=read_ibi)
@life_commands.dublin_core_options
@life_commands.language_option
@click.option("--no-language", is_flag=True, help="Remove the language of the item.")
@click.option("--content-type", type=life_commands.CONTENT_TYPE)
@life_commands.network_option
@click.option("--others", type=life_commands.OTHERS, help=life_commands.OTHERS_HELP)
@click.option("--open", is_flag=True, help="Remove the restriction to networks.")
@life_commands.embargo_option
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
@life_commands.same_as_option
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
    from flask_ibi_archive.core.records.fields import FieldError

    values = {
        name: value
        for name, value in options.items()
        if value is not None and value != () and (value is not False or name in TWO_WAY)
    }
    _check_options(values)
    archive = get_archive()
    item = find_item(archive, ibi)
    try:
        changes = build_changes(item.record, values, life_commands.get_elements(options))
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
    from flask_ibi_archive.core.records import fields

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
    from flask_ibi_archive.core.records.fields import FieldError
    from flask_ibi_archive.core.records.licences import parse_licence
    from flask_ibi_archive.core.records.work_values import parse_container

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
    from flask_ibi_archive.core.records.fields import FieldError, parse_network
    from flask_ibi_archive.core.records.record import AccessRule

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
    from flask_ibi_archive.core.records.fields import FieldError, parse_ibi, parse_language, quoted

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
    from flask_ibi_archive.core.records import fields
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
    from flask_ibi_archive.core.records import parse
    from flask_ibi_archive.core.records.record import (
        ELEMENTS,
        DublinCoreMetadata,
        MetadataAddress,
        MetadataItem,
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
    new = parse.parse_dublin_core("dc", filled) if filled else {}
    kept = {name: values for name, values in known.items() if name not in elements}
    changed = {**kept, **new}
    merged = {name: changed[name] for name in ELEMENTS if name in changed}
    return DublinCoreMetadata(merged) if merged else None
