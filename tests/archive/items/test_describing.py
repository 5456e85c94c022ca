"""The description of an item: keywords, titles and creators, files, related items; reading it."""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, render_template_string
from support.operations import record_of, view_of
from werkzeug.datastructures import FileStorage

from flask_ibi_archive import FileRecord, ItemRecord
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.core.records.description import Name
from flask_ibi_archive.core.records.record import format_record
from flask_ibi_archive.errors import StorageError


def dublin_core(archive: Archive, ibi: str) -> Any:
    """Return the elements of the Dublin Core of an item, or None."""
    return getattr(view_of(archive, ibi).record.metadata, "elements", None)


#: Descriptions, and the Dublin Core of the item.
DESCRIPTIONS: list[tuple[dict[str, Any], Any]] = [
    ({}, None),
    ({"title": ["A", ("B", "pt")]}, {"title": (("A", None), ("B", "pt"))}),
    (
        {"title": "A", "creators": ["Silva, Ana", "Souza, Davi"]},
        {"title": (("A", None),), "creator": (("Silva, Ana", None), ("Souza, Davi", None))},
    ),
    (
        {"title": "A", "metadata": {"dc": {"date": "2026"}}},
        {"title": (("A", None),), "date": (("2026", None),)},
    ),
    ({"title": "A", "metadata": {"dc": {"title": "B"}}}, {"title": (("A", None),)}),
]


def test_title_and_creators_become_elements_of_the_dublin_core(archive: Archive) -> None:
    for fields, expected in DESCRIPTIONS:
        assert dublin_core(archive, archive.deposit(**fields).ibi) == expected, fields
        assert dublin_core(archive, archive.deposit(ItemRecord(**fields)).ibi) == expected  # type: ignore[typeddict-item]


def test_files_are_paths_streams_uploads_pairs_and_records(
    archive: Archive, tmp_path: Path
) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"content")
    given: list[tuple[Any, str]] = [
        (path, "a.txt"),
        (str(path), "a.txt"),
        (io.BytesIO(b"content"), "file-1"),
        (FileStorage(io.BytesIO(b"content"), "C:/data/b.txt"), "b.txt"),
        (FileStorage(io.BytesIO(b"content")), "file-1"),
        (("c.txt", path), "c.txt"),
        (("data/c.txt", io.BytesIO(b"content")), "data/c.txt"),
        (FileRecord("d.txt", source=str(path)), "d.txt"),
    ]
    for file, name in given:
        [stored] = view_of(archive, archive.deposit(files=[file]).ibi).record.files
        assert stored.path == name
        assert stored.sha256 == hashlib.sha256(b"content").hexdigest()
    # a file on another server has an address and no content
    far = FileRecord("e.txt", url="https://files.example/e.txt")
    assert view_of(archive, archive.deposit(files=far).ibi).record.files == (far,)


@dataclass
class Row:
    """A row of the host."""

    ibi: str | None


def test_related_items_are_objects_with_an_ibi(archive: Archive) -> None:
    first = archive.deposit(language="en")
    second = archive.deposit(previous_edition=first)
    third = archive.deposit(previous_edition=Row(second.ibi), language="en")
    portuguese = archive.deposit(translation_of=view_of(archive, third.ibi), language="pt")
    assert view_of(archive, first.ibi).record.next_edition in (second.rep, second.ibip)
    assert view_of(archive, second.ibi).record.next_edition in (third.rep, third.ibip)
    exported = [found.record.translations for found in archive.find()]
    # the first item of a group of translations lists the others
    assert exported == [{}, {}, {"pt": portuguese.rep}, {}]
    for field in ("previous_edition", "translation_of"):
        with pytest.raises(StorageError, match=rf"^{field}: Row.* has no identifier yet"):
            archive.deposit(language="fr", **{field: Row(None)})


def test_a_persistent_url_is_made_of_a_text_or_of_an_object(app: Flask, archive: Archive) -> None:
    minted = archive.deposit()
    url = f"http://urlib.net/{minted.ibip}"
    for item in (minted, minted.ibip, view_of(archive, minted.rep), Row(minted.ibip)):
        assert archive.persistent_url(item) == url
    with app.app_context():  # templates have a function for it
        assert render_template_string("{{ ibi_persistent_url(item) }}", item=minted) == url
    with pytest.raises(StorageError, match=r"^item: Row.* has no identifier yet"):
        archive.persistent_url(Row(None))
    with pytest.raises(StorageError, match=r"^item: None is not an item; use an identifier"):
        archive.persistent_url(None)  # type: ignore[arg-type]


# --- complete descriptions ------------------------------------------------------------------------

ANA = {"name": "Silva, Ana", "orcid": "0000-0002-1825-0097"}
WORK: dict[str, Any] = {
    "titles": ["Chuva", {"value": "Rain", "lang": "en", "kind": "translated"}],
    "creators": [ANA, "Souza, Davi"],
    "contributors": [{"name": "Lima, Eva", "role": "advisor"}],
    "type": "tese",
    "licence": "CC-BY-4.0",
}


def work_of(archive: Archive, item: Any) -> dict[str, Any]:
    work: dict[str, Any] = format_record(record_of(archive, item.ibi))["metadata"]["work"]
    return work


def test_a_description_can_be_given_in_several_ways(archive: Archive) -> None:
    item = view_of(archive, archive.deposit(metadata={"work": WORK}).ibi)
    for fields in (WORK, {"metadata": item.description}):
        assert work_of(archive, archive.deposit(**fields)) == WORK
    # its Dublin Core is made from the description
    assert (item.title, item.creators) == ("Chuva", ["Silva, Ana", "Souza, Davi"])
    assert item.dublin_core["contributor"] == (("Lima, Eva", None),)
    # a creator with an ORCID makes a description
    for creator in (Name("Silva", "Ana", ANA["orcid"]), ANA):
        described = work_of(archive, archive.deposit(title="Rain", creators=[creator]))
        assert described == {"titles": ["Rain"], "creators": [ANA]}


def test_an_edit_changes_the_description(archive: Archive) -> None:
    item = archive.deposit(**WORK)
    archive.edit(item.ibi, title="Neve", creators=["Silva, Ana"], contributors=None, issued="2009")
    assert work_of(archive, item) == {
        "titles": ["Neve", WORK["titles"][1]],
        "creators": ["Silva, Ana"],
        "type": "tese",
        "issued": "2009",
        "licence": "CC-BY-4.0",
    }
