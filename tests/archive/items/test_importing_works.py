"""``flask ibi import --mint``: each work of a file becomes one item with both identifiers."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from codecs import BOM_UTF16_LE
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from support.archives import archive_of, everything_in, export
from support.commands import Outcome, command
from support.vectors import load
from support.web import ask

from flask_ibi_archive.archive.items import import_export as importing
from flask_ibi_archive.core.identifiers.parse import decode_identifier, parse_identifier


def mint(app: Flask, path: Path, *words: object) -> Outcome:
    """Run ``flask ibi import PATH --mint``."""
    return command(app, "import", path, "--mint", *words)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "works.csv"


def read_table(path: Path) -> list[dict[str, str]]:
    text = path.read_text("utf-8-sig")
    delimiter = ";" if text.startswith("place;") else ","
    return list(csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter))


#: Files of works, and what their imports report and store.
CASES = load("archive/imported_works.json")


@pytest.mark.postgresql
@pytest.mark.parametrize("library", CASES["libraries"])
def test_a_library_is_checked_and_imported_and_imported_again(
    app: Flask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: list[Any]
) -> None:
    name, text, keys, titles, place = library
    monkeypatch.setattr(importing, "WORKS_PER_BATCH", 2)
    path, out, again = tmp_path / name, tmp_path / "new.csv", tmp_path / "again.csv"
    path.write_text(text, "utf-8")
    before, count = everything_in(archive_of(app)), len(keys)
    outcome = mint(app, path, "--dry-run", "--identifiers", out)
    assert outcome.data == f"would be added {count}, would be updated 0, would be skipped 0\n"
    assert everything_in(archive_of(app)) == before
    assert not out.exists()
    assert mint(app, path, "--identifiers", out).data == f"added {count}, updated 0, skipped 0\n"
    items, table = export(archive_of(app)), read_table(out)
    assert [item["key"] for item in items] == keys
    assert len({item[form] for item in items for form in ("rep", "ibip")}) == 2 * count
    for form in ("rep", "ibip", "key"):
        assert [row[form] for row in table] == [item[form] for item in items]
    assert [row["title"] for row in table] == titles
    assert (table[0]["url"], table[0]["place"]) == (f"http://urlib.net/{items[0]['ibip']}", place)
    # nothing is added again
    outcome = mint(app, path, "--identifiers", again)
    assert outcome.data == f"added 0, updated 0, skipped {count}\n"
    assert again.read_bytes() == out.read_bytes()


def test_an_item_has_what_the_row_says(app: Flask, path: Path) -> None:
    (path.parent / "teses").mkdir()
    (path.parent / "teses/chuva.pdf").write_bytes(b"Choveu.")
    path.write_text(
        "Obra;Autores;Idioma;DOI;Arquivo;Embargo\n"
        "A chuva;Silva, Ana;pt;10.1590/a;teses/chuva.pdf;2999-01-01\n",
        "utf-8",
    )
    assert mint(app, path, "--map", "title=Obra").data == "added 1, updated 0, skipped 0\n"
    [item] = export(archive_of(app))
    assert item["files"][0].pop("source")
    minted = parse_identifier(item["rep"]), parse_identifier(item["ibip"])
    assert {decode_identifier(one).date for one in minted} == {decode_identifier(minted[0]).date}
    assert item == {
        "rep": item["rep"],
        "ibip": item["ibip"],
        "same_as": ["doi:10.1590/a"],
        "timestamp": item["timestamp"],
        "language": "pt",
        "metadata": item["metadata"],
        "files": [{"path": "chuva.pdf", "sha256": hashlib.sha256(b"Choveu.").hexdigest()}],
        "embargo": "2999-01-01",
        "key": item["key"],
    }
    assert re.fullmatch(r"works\.csv:[0-9a-f]{16}", item["key"])
    deposited = archive_of(app).deposit(title="X")
    assert parse_identifier(deposited.rep).prefix == minted[0].prefix


def test_all_errors_are_reported_and_nothing_is_changed(app: Flask, path: Path) -> None:
    archive_of(app).deposit(title="T", same_as=["doi:10.1590/taken"])
    before = everything_in(archive_of(app))
    path.write_text("\n".join(CASES["wrong"]), "utf-8")
    outcome = mint(app, path)
    assert outcome.status == 1
    *warnings, last = outcome.err.splitlines()
    assert last == f"Error: {path} has {len(CASES['errors'])} errors; nothing was changed"
    assert len(warnings) == 2
    for line, (place, field, reason) in zip(outcome.out.splitlines(), CASES["errors"], strict=True):
        where, _, message = line.partition(": ")
        assert where == ", ".join(filter(None, (str(path), place, field)))
        assert reason in message
    assert everything_in(archive_of(app)) == before


def test_a_secondary_value_that_is_wrong_is_left_out_with_a_warning(app: Flask, path: Path) -> None:
    path.write_text("\n".join(CASES["doubtful"]), "utf-8")
    outcome = mint(app, path, "--strict")
    assert outcome.status == 1
    assert len(outcome.out.splitlines()) == len(CASES["warnings"])
    assert export(archive_of(app)) == []
    outcome = mint(app, path)
    assert (outcome.status, outcome.out) == (0, "added 3, updated 0, skipped 0\n")
    reported = json.loads(mint(app, path, "--dry-run", "--json").out)
    assert {**reported, "warnings": []} == {
        **{"added": 0, "updated": 0, "skipped": 3},
        **{"errors": [], "warnings": []},
    }
    lines = outcome.err.splitlines()
    for line, warning, expected in zip(lines, reported["warnings"], CASES["warnings"], strict=True):
        place, field, reason = expected
        assert line == f"Warning: {path}, {place}, {field}: {warning['reason']}"
        assert (warning["place"], warning["field"]) == (place, field)
        assert reason in warning["reason"]
    first, second, _ = (item["metadata"]["work"] for item in export(archive_of(app)))
    assert first == {
        "titles": ["A"], "creators": ["Silva, Ana"], "type": "Artigo", "issued": "2009",
        "abstracts": ["Um dois"], "notes": ["Páginas: 7-18"],
    }  # fmt: skip
    assert second["creators"] == ["Silva, Ana/Souza, Davi"]


@pytest.mark.parametrize("case", CASES["reports"])
def test_a_report_is_in_the_language_of_the_user(
    app: Flask, path: Path, monkeypatch: pytest.MonkeyPatch, case: list[Any]
) -> None:
    variable, value, report = case
    monkeypatch.setenv("LC_ALL", "en_GB.UTF-8")
    monkeypatch.setenv(variable, value)
    path.write_text("Título;ISBN;Ano\nA;12;2009\nB;;ontem\n;;2009\n", "utf-8")
    outcome = mint(app, path)
    *lines, last = (*outcome.out.splitlines(), *outcome.err.splitlines())
    assert last.startswith(f"Error: {path} ")
    shown = [line.replace(f"{path}, ", "") for line in lines] + [last.partition(f"{path} ")[2]]
    assert sorted(shown) == sorted(report)
    path.write_text("Título;Cor\nA;azul\n", "utf-8")
    assert "Cor: a coluna é " in mint(app, path).out or "Cor: la columna es " in mint(app, path).out
    path.write_text("Título\nA\n", "utf-8")
    assert "0, " in mint(app, path).data
    assert "added" not in mint(app, path).data


THESES = Path(__file__).parents[2] / "data" / "theses.csv"


@pytest.mark.parametrize(
    ("encoding", "mark", "name"),
    [("cp1252", b"", "Windows-1252"), ("utf-16-le", BOM_UTF16_LE, "UTF-16")],
)
def test_a_table_of_theses_is_imported_as_excel_saves_it(
    app: Flask, path: Path, encoding: str, mark: bytes, name: str
) -> None:
    text = THESES.read_text("utf-8").replace("\n", "\r\n")
    path.write_bytes(mark + text.encode(encoding))
    outcome = mint(app, path, "--identifiers", path, "--strict")
    assert outcome.out == "added 12, updated 0, skipped 0\n"
    assert f"row 1: the table is read as {name}; if letters are wrong, open it in" in outcome.err
    assert outcome.err.count("\n") == 1
    items = export(archive_of(app))
    works = [item["metadata"]["work"] for item in items]
    assert works[0] == CASES["first thesis"]
    assert [work["issued"] for work in works][-2:] == ["2012-11-30", "2013-02-01"]
    # the table of identifiers has the separator of the table, and no formulas
    rows = [*csv.reader(io.StringIO(path.read_text("utf-8-sig"), newline=""), delimiter=";")]
    assert [len(row) for row in rows] == [6] * 13
    assert [row[-1] for row in rows if row[-1].startswith("'")] == ["'+2 graus: a Amazônia em 2050"]


def test_csl_json_of_zotero_and_of_a_registry_is_imported_and_nothing_is_lost_in_silence(
    app: Flask,
) -> None:
    outcome = mint(app, THESES.with_name("zotero.json"))
    assert (outcome.status, outcome.out) == (0, "added 8, updated 0, skipped 0\n")
    named = re.findall(r"(item \d) \(.*?\), (\w+): ", outcome.err)
    assert named == [
        ("item 1", "issued"), ("item 2", "issued"), ("item 3", "issued"), ("item 5", "issued"),
        ("item 8", "volume"),
    ]  # fmt: skip
    outcome = mint(app, THESES.with_name("crossref.json"))
    assert (outcome.out, outcome.err) == ("added 1, updated 0, skipped 0\n", "")
    items = {item["key"]: item for item in export(archive_of(app))}
    larvae = items["zotero.json:http://zotero.org/users/1/items/A"]["metadata"]["work"]
    assert [name if isinstance(name, str) else name["name"] for name in larvae["creators"]] == [
        "da Silva, Ana", "INPE", "Souza Filho, Davi",
    ]  # fmt: skip
    work = [*items.values()][-1]["metadata"]["work"]
    assert work["creators"][0]["orcid"] == "0000-0002-1825-0097"
    assert (work["issn"], work["related"][0]["identifier"]) == ("1756-1833", "0895-4798")
    first, *_, last = archive_of(app).find()
    assert first.title == "Larvae of Aedes aegypti and CO2 in SP"
    page = ask(app, f"/col/{first.rep}/").text
    assert "<h1>Larvae of <i>Aedes aegypti</i> and CO<sub>2</sub> in SP</h1>" in page
    assert "SILVA, Ana da; INPE; SOUZA FILHO, Davi. Larvae of Aedes aegypti and CO2 in SP." in page
    assert '<p class="ibi-text">It rained.</p>' in ask(app, f"/col/{last.rep}/").text


def test_one_error_is_one_line_that_names_its_place(
    app: Flask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, content, said in CASES["files with one error"]:
        monkeypatch.setattr(importing, "BATCH", 2)
        path = tmp_path / name
        path.write_text(content)
        outcome = mint(app, path)
        assert outcome.err == f"Error: {path} has 1 error; nothing was changed\n"
        assert outcome.out.startswith(f"{path}, {said}")
        assert outcome.out.count("\n") == 1
        assert export(archive_of(app)) == []


def test_wrong_options_are_refused(app: Flask) -> None:
    for words, message in CASES["wrong options"]:
        assert message in command(app, "import", *words).usage


def test_wrong_files_are_refused(app: Flask, tmp_path: Path) -> None:
    for name, content, message in [
        ("works.txt", b"", "its name must end with .csv, .tsv"),
        ("works.xlsx", b"", 'choose "Save as", and "CSV UTF-8 (comma delimited)"'),
        ("works.csv", b"PK\x03\x04", "the file is no text in UTF-8 or UTF-16; open it in"),
        ("works.csv", "Título\nÁgua\n".encode() + b"\xe1", "the file is no text in UTF-8"),
        ("works.csv", b"Autor\nA\n", "the table has no column title"),
        ("works.ris", b"", "export CSL JSON from Zotero, or run: pandoc -f ris -t csljson "),
        ("works.json", b'[{"title": "\xe1"}]', "is not UTF-8 text (byte 13)"),
        ("works.json", b"title,year\n", "the text is not JSON"),
    ]:
        path = tmp_path / name
        path.write_bytes(content)
        error = mint(app, path).error
        assert error.startswith(str(path))
        assert message in error


def test_a_corrected_table_updates_its_items(app: Flask, path: Path) -> None:
    path.write_text("key,title\na,A\nb,B\n", "utf-8")
    mint(app, path)
    first = {item["key"]: item["ibip"] for item in export(archive_of(app))}
    path.write_text("key,title\nc,C\nb,Better\na,A\n", "utf-8")
    outcome = mint(app, path, "--on-conflict", "update")
    assert outcome.data == "added 1, updated 1, skipped 1\n"
    items = {item["key"]: item for item in export(archive_of(app))}
    assert {key: items[key]["ibip"] for key in first} == first
    assert items["b"]["metadata"]["work"]["titles"] == ["Better"]
    assert len(items) == 3
    # a withdrawn item is not imported again
    archive_of(app).delete(items["a"]["ibip"], reason="A mistake")
    assert mint(app, path).data == "added 0, updated 0, skipped 3\n"


def test_an_error_after_the_check_names_the_row_and_nothing_is_imported(
    app: Flask, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "WORKS_PER_BATCH", 2)
    path.write_text("key,title,DOI\na,A,\nb,B,\nc,C,10.1590/c\n", "utf-8")
    find = importing.WorksImporter._import

    def deposit_in_between(*values: Any) -> Any:
        archive_of(app).deposit(title="Faster", same_as=["doi:10.1590/c"])
        return find(*values)

    monkeypatch.setattr(importing.WorksImporter, "_import", deposit_in_between)
    assert mint(app, path).error.startswith(f"{path}, row 4, DOI: another item of this Archive")
    assert [item.get("key") for item in export(archive_of(app))] == [None]
