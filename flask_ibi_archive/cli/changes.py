"""What the options of edit change in a record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from flask_ibi_archive.cli.parameters import read_ibi

if TYPE_CHECKING:
    from flask_ibi_archive.records.record import (
        AccessRule,
        DublinCoreMetadata,
        ItemRecord,
        MetadataAddress,
        MetadataItem,
    )

#: Parameters whose option may be repeated and names one.
REPEATED = ("networks", "translations", "files", "add_files", "remove_files")


def option_of(name: str) -> str:
    """Return an option as it is written."""
    singular = name.removesuffix("s") if name in REPEATED else name
    return f"--{singular.removeprefix('dc_').replace('_', '-')}"


def changes_of(
    item: ItemRecord, given: Mapping[str, Any], elements: Mapping[str, list[str]]
) -> dict[str, Any]:
    """Return the fields of a record that options change, as they are to be.

    :param given: the options that were given, without Dublin Core's.
    :param elements: those of Dublin Core.
    :raises FieldError: naming an option whose value is wrong.
    """
    from flask_ibi_archive.records import fields

    readers: dict[str, tuple[str, Callable[[str, Any], Any]]] = {
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
        field: read(option_of(name), given[name])
        for name, (field, read) in readers.items()
        if name in given
    }
    if given.keys() & {"networks", "others", "open"}:
        changes["access"] = _access(item.access, given)
    if "translations" in given:
        changes["translations"] = {**item.translations, **_translations(given["translations"])}
    if elements or given.keys() & {"metadata_item", "metadata_url", "no_metadata"}:
        changes["metadata"] = _metadata(item, given, elements)
    return changes


def _access(old: AccessRule | None, given: Mapping[str, Any]) -> AccessRule | None:
    from flask_ibi_archive.records.fields import FieldError, parse_network
    from flask_ibi_archive.records.record import AccessRule

    if "open" in given:
        return None
    networks = tuple(parse_network("--network", one) for one in given.get("networks", ()))
    networks = networks or (old.networks if old else ())
    if not networks:
        raise FieldError("--others", "its files are for everybody; --network says for whom else")
    return AccessRule(networks, given.get("others") or (old.others if old else "metadata"))


def _translations(given: tuple[str, ...]) -> dict[str, str]:
    from flask_ibi_archive.records.fields import FieldError, parse_ibi, parse_language, quoted

    found: dict[str, str] = {}
    for one in given:
        language, equals, ibi = one.partition("=")
        if not equals:
            raise FieldError(
                "--translation", f"{quoted(one)} is no pair like pt=8JMKD3MGP8W/35MME4E"
            )
        language = parse_language("--translation", language)
        if language in found:
            raise FieldError("--translation", f"{language} is given twice")
        found[language] = parse_ibi("--translation", read_ibi(ibi))
    return found


def _metadata(
    item: ItemRecord, given: Mapping[str, Any], elements: Mapping[str, list[str]]
) -> MetadataItem | MetadataAddress | DublinCoreMetadata | None:
    from flask_ibi_archive.records import fields
    from flask_ibi_archive.records.record import MetadataAddress, MetadataItem

    if "metadata_item" in given:
        return MetadataItem(fields.parse_ibi("--metadata-item", given["metadata_item"]))
    if "metadata_url" in given:
        return MetadataAddress(fields.parse_url("--metadata-url", given["metadata_url"]))
    return _dublin_core(None if "no_metadata" in given else item.metadata, elements)


def _dublin_core(
    old: MetadataItem | MetadataAddress | DublinCoreMetadata | None,
    elements: Mapping[str, list[str]],
) -> DublinCoreMetadata | None:
    """Return Dublin Core with some elements replaced; None where nothing is left of it."""
    from flask_ibi_archive.errors import StorageError
    from flask_ibi_archive.records import parse
    from flask_ibi_archive.records.dublin_core import ELEMENTS
    from flask_ibi_archive.records.record import DublinCoreMetadata, MetadataAddress, MetadataItem

    if isinstance(old, MetadataItem | MetadataAddress):
        place = old.ibi if isinstance(old, MetadataItem) else old.url
        raise StorageError(
            f"its metadata are {place}; change them there, or add --no-metadata to begin anew here"
        )
    known = dict(old.elements) if old else {}
    filled = {name: values for name, values in elements.items() if values != [""]}
    fresh = parse.parse_dublin_core("dc", filled) if filled else {}
    merged = {
        name: fresh[name] if name in fresh else known[name]
        for name in ELEMENTS
        if name in fresh or (name in known and name not in elements)
    }
    return DublinCoreMetadata(merged) if merged else None
