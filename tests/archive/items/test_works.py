"""Items with a complete description: deposit, edits, metadata items, export and import."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from support import host_models
from support.archives import import_records
from support.cases import for_each
from support.databases import new_database
from support.stores import rep_of

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.hosts.comparing import Comparer
from flask_ibi_archive.core.records.description import Description, Name, Title
from flask_ibi_archive.core.records.lines import format_record
from flask_ibi_archive.core.records.record import ItemView
from flask_ibi_archive.errors import StorageError

ANA = {"name": "Silva, Ana", "orcid": "0000-0002-1825-0097"}
WORK: dict[str, Any] = {
    "titles": ["Chuva", {"value": "Rain", "lang": "en", "kind": "translated"}],
    "creators": [ANA, "Souza, Davi"],
    "contributors": [{"name": "Lima, Eva", "role": "advisor"}],
    "type": "tese",
    "licence": "CC-BY-4.0",
}


def get(archive: Archive, item: Any) -> ItemView:
    view = archive.get(item if isinstance(item, str) else item.ibi)
    assert view is not None
    return view


def work_of(archive: Archive, item: Any) -> dict[str, Any]:
    work: dict[str, Any] = format_record(get(archive, item).record)["metadata"]["work"]
    return work


def test_a_description_can_be_given_in_three_ways(archive: Archive) -> None:
    described = get(archive, archive.deposit(metadata={"work": WORK})).description
    assert described is not None
    for fields in (WORK, {"metadata": described}):
        assert work_of(archive, archive.deposit(**fields)) == WORK


def test_the_dublin_core_of_a_described_item_is_made_from_the_description(archive: Archive) -> None:
    item = get(archive, archive.deposit(**WORK))
    assert (item.title, item.creators) == ("Chuva", ["Silva, Ana", "Souza, Davi"])
    assert item.dublin_core["contributor"] == (("Lima, Eva", None),)


def test_a_creator_with_an_orcid_makes_a_description(archive: Archive) -> None:
    by_name = archive.deposit(title="Rain", creators=[Name("Silva", "Ana", ANA["orcid"])])
    by_object = archive.deposit(title="Rain", creators=[ANA])
    assert (
        work_of(archive, by_name)
        == work_of(archive, by_object)
        == {
            "titles": ["Rain"],
            "creators": [ANA],
        }
    )


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
    assert get(archive, item).title == "Neve"


def test_an_item_with_dublin_core_gets_a_description_if_nothing_is_lost(archive: Archive) -> None:
    item = archive.deposit(title="Rain", creators=["Silva, Ana"])
    archive.edit(item.ibi, type="tese")
    assert work_of(archive, item) == {
        "titles": ["Rain"],
        "creators": ["Silva, Ana"],
        "type": "tese",
    }
    item = archive.deposit(title="Rain", metadata={"dc": {"identifier": ["x"]}})
    with pytest.raises(StorageError, match=r"^type: .* would be lost \(identifier\)"):
        archive.edit(item.ibi, type="tese")


CONTRADICTIONS: list[tuple[dict[str, Any], str]] = [
    ({"metadata": {"dc": {"title": ["a"]}}, "type": "tese"}, "^metadata: .* have the field type"),
    ({"metadata": {"work": "x"}, "title": "a"}, "^metadata.work: 'x' is not an object"),
    ({"title": "a", "titles": ["b"]}, "^title: the field titles contains the title too"),
    ({"type": "tese"}, "titles: the field is missing"),
    (
        {"title": "a", "contributors": [{"name": "x", "role": "boss"}]},
        r": contributors\[0\].role: ",
    ),
]


@for_each(("fields", "message"), CONTRADICTIONS)
def test_a_contradiction_is_refused(archive: Archive, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(StorageError, match=message):
        archive.deposit(**fields)


def test_a_metadata_item_describes_its_item_completely(archive: Archive) -> None:
    metadata = {"rep": rep_of(1), "content_type": "Metadata", "metadata": {"work": WORK}}
    import_records(archive, [metadata, {"rep": rep_of(2), "metadata": {"ibi": rep_of(1)}}])
    item, other = get(archive, rep_of(2)), get(archive, rep_of(1))
    assert item.description == other.description
    assert item.dublin_core == other.dublin_core
    assert isinstance(item.description, Description)
    assert item.description.titles[0] == Title("Chuva")


@pytest.mark.postgresql
def test_the_database_refuses_a_description_without_its_dublin_core(archive: Archive) -> None:
    archive.deposit(**WORK)
    with pytest.raises(IntegrityError), archive.database.writing() as connection:
        connection.execute(text("UPDATE ibi_item SET dublin_core = NULL WHERE work IS NOT NULL"))


def test_a_row_of_a_host_has_a_description(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def describe(row: Any) -> dict[str, Any]:
        return {**WORK, "titles": [row.title]}

    monkeypatch.setattr(host_models, "describe", describe)
    with new_database(backend, tmp_path, ready=True) as uri:
        host = host_models.Host(uri, tmp_path)
        row = host.add("Chuva")
        assert work_of(host.archive, row.ibi) == {**WORK, "titles": ["Chuva"]}
        row.title = "Neve"
        host.session().commit()
        assert work_of(host.archive, row.ibi) == {**WORK, "titles": ["Neve"]}
        assert list(Comparer(host.archive, host.session(), host.Thesis).run()) == []
        host.close()
