"""The command edit."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from support.archives import archive_of, import_records
from support.commands import command, show, unchanged
from support.web import NOBODY, ask, rep

FULL, PLAIN, FAR_METADATA, COPY, NEW, OLD, EARLIER, WORK = (rep(number) for number in range(1, 9))
DOI = "doi:10.5281/zenodo.12"
JULY, DEGREE = {"issued": "2009-07"}, {"degree": {"name": "Hydrology"}}
UNLISTED = {"list_files": False}
FAR_ARCHIVE = "sid.inpe.br/mtc-m99@80/2009/07.21.13.00"
METADATA_URL = "https://example.org/m.html"
RULE = {"networks": ["150.163.0.0/16"], "others": "none"}
DC = {
    "title": [{"value": "A report", "lang": "en"}],
    "creator": ["Banon", "Ribeiro"],
    "format": ["text/plain"],
}
NUMBERS = count()


def record(ibi: str, folder: Path) -> dict[str, Any]:
    """Return a record of an item of one kind; edit treats each kind differently."""
    files = []
    for name in ("a.txt", "b.txt"):
        (folder / name).write_text(name)
        files.append({"path": name, "source": str(folder / name)})
    kinds: dict[str, dict[str, Any]] = {
        FULL: {"language": "en", "metadata": {"dc": DC}, "files": files, "access": RULE,
               "embargo": "2001-01-01", "timestamp": "2009-07-21T13:23:45Z"},
        PLAIN: {"files": files[:1]},
        FAR_METADATA: {"metadata": {"ibi": NOBODY}},
        COPY: {"state": "Copy", "original_archive": FAR_ARCHIVE},
        OLD: {"metadata": {"dc": {"title": ["A"]}}},
        EARLIER: {"next_edition": NEW},
        WORK: {"metadata": {"work": {"titles": ["A"], **JULY, **DEGREE}}},
    }  # fmt: skip
    return {"rep": ibi, **kinds.get(ibi, {})}


@pytest.fixture
def shelf(here: Flask, tmp_path: Path) -> Flask:
    """An app with an item of each kind; tests must not change them."""
    if archive_of(here).get(FULL) is None:
        import_records(archive_of(here), [record(rep(number), tmp_path) for number in range(1, 9)])
    return here


def another(app: Flask, kind: str, folder: Path) -> str:
    """Add an item of a kind, which the test may change, and return its identifier."""
    number = next(NUMBERS)
    ibi = f"sid.inpe.br/mtc-m18@80/2010/01.01.{number // 60:02d}.{number % 60:02d}"
    import_records(archive_of(app), [{**record(kind, folder), "rep": ibi}])
    return ibi


def shown(app: Flask, ibi: str) -> dict[str, Any]:
    """Return an item as the command show prints it, without its timestamp."""
    item = show(app, ibi)
    item["files"] = [file["path"] for file in item.get("files", [])]
    del item["timestamp"]
    return item


def of_dc(**elements: Any) -> dict[str, Any]:
    return {"metadata": {"dc": elements}}


def of_work(**fields: Any) -> dict[str, Any]:
    return {"metadata": {"work": {"titles": ["A"], **JULY, **fields}}}


UM = {"value": "Um", "lang": "pt"}, "[1998]"
DOCTORAL = {"degree": {"name": "Hydrology", "level": "doctoral"}, "subjects": ["ice", "snow"]}
TWO = {"networks": ["10.0.0.0/8", "2001:db8::/32"], "others": "none"}
#: Item, arguments, and the fields that differ afterwards (None: the field was removed).
EDITS: list[tuple[str, tuple[str, ...], dict[str, Any]]] = [
    (
        FULL,
        ("creators=Banon", "creators=Costa", "metadata.dc.rights=CC BY 4.0"),
        of_dc(**{**DC, "creator": ["Banon", "Costa"], "rights": ["CC BY 4.0"]}),
    ),
    (
        FULL,
        ('title=[{"value": "Um", "lang": "pt"}, "[1998]"]', "creators="),
        of_dc(title=[*UM], format=DC["format"]),
    ),
    (FULL, ("title=[Untitled]",), of_dc(**{**DC, "title": ["[Untitled]"]})),
    (FULL, (f'metadata={{"url": "{METADATA_URL}"}}',), {"metadata": {"url": METADATA_URL}}),
    (FULL, ("metadata=", "metadata.ibi=OTHER"), {"metadata": {"ibi": "OTHER"}}),
    (PLAIN, ("title=A", "issued=2009-07"), of_work()),
    # Dublin Core becomes a description if nothing is lost
    (OLD, ("issued=2009-07",), of_work()),
    (WORK, ("degree.level=doctoral", "subjects=ice", "subjects=snow"), of_work(**DOCTORAL)),
    (FULL, ("language=", "embargo=", "access="), dict.fromkeys(("language", "embargo", "access"))),
    (PLAIN, ("content_type=Metadata", "content_type="), {"content_type": "Metadata"}),
    (FULL, ("access.networks=10.0.0.0/8",), {"access": {**RULE, "networks": ["10.0.0.0/8"]}}),
    (
        PLAIN,
        ("access.networks=10.0.0.0/8", "access.networks=2001:db8::/32", "access.others=none"),
        {"access": TWO},
    ),
    (FULL, ("embargo=2028-02-29", "list_files=false"), {"embargo": "2028-02-29", **UNLISTED}),
    (FULL, ("next_edition=http://urlib.net/OTHER",), {"next_edition": "OTHER"}),
    (FULL, ("translations.fr=OTHER",), {"translations": {"fr": "OTHER"}}),
    (FULL, ("target_file=b.txt", f"same_as={DOI}"), {"target_file": "b.txt", "same_as": [DOI]}),
]


def test_edit_changes_only_the_fields_that_it_names(here: Flask, tmp_path: Path) -> None:
    for kind, arguments, changes in EDITS:
        ibi, other = another(here, kind, tmp_path), another(here, OLD, tmp_path)
        words = [word.replace("OTHER", other.upper()) for word in arguments]
        before = shown(here, ibi)
        outcome = command(here, "edit", ibi.upper(), *words)
        assert (outcome.out, outcome.err) == (f"edited {ibi}\n", ""), words
        expected = json.loads(json.dumps({**before, **changes}).replace("OTHER", other))
        assert shown(here, ibi) == {
            name: value for name, value in expected.items() if value is not None
        }, words


@pytest.fixture
def full(here: Flask, tmp_path: Path) -> str:
    """An item with all fields, which the test may change."""
    return another(here, FULL, tmp_path)


def test_files_are_added_replaced_and_removed(here: Flask, full: str, tmp_path: Path) -> None:
    def edit(*words: object) -> list[str]:
        assert command(here, "edit", full, *words).status == 0
        return list(shown(here, full)["files"])

    def read(path: str) -> tuple[int, str]:
        answer = ask(here, f"/col/{full}/doc/{path}", remote="150.163.1.1")
        return answer.status, answer.text

    for name in ("c.txt", "d.txt", "new/b.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"new {name}")
    words = ("--add-file", tmp_path / "c.txt", "--add-file", tmp_path / "d.txt")
    assert edit(*words) == ["a.txt", "b.txt", "c.txt", "d.txt"]
    assert (read("c.txt"), read("a.txt")) == ((200, "new c.txt"), (200, "a.txt"))
    edit("target_file=d.txt")
    assert edit("--remove-file", "b.txt") == ["a.txt", "c.txt", "d.txt"]
    assert shown(here, full)["target_file"] == "d.txt"
    # without a target file, the first file is the target
    assert edit("--remove-file", "d.txt") == ["a.txt", "c.txt"]
    assert "target_file" not in shown(here, full)
    (tmp_path / "new/a.txt").write_text("newer")
    words = ("--remove-file", "a.txt", "--add-file", tmp_path / "new/a.txt")
    assert edit(*words) == ["c.txt", "a.txt"]
    assert read("a.txt") == (200, "newer")
    # all files are replaced, and other fields changed at once
    files = (f"files={tmp_path / 'c.txt'}", f"files={tmp_path / 'new/b.txt'}")
    changes = ("target_file=b.txt", "title=T", "language=pt")
    assert edit(*files, *changes) == ["c.txt", "b.txt"]
    item = shown(here, full)
    assert (item["target_file"], item["language"]) == ("b.txt", "pt")
    assert item["metadata"]["dc"]["title"] == ["T"]
    assert (read("b.txt"), read("a.txt")[0]) == ((200, "new new/b.txt"), 404)
    assert edit("files=") == []


#: The item, the wrong arguments of edit, and a part of the message.
WRONG: list[tuple[str, tuple[str, ...], str]] = [
    (FULL, (), "nothing says what to change; write for example title="),
    (FULL, ("title",), "'title' is not FIELD=VALUE, such as language=pt"),
    (FULL, ("titel=T",), "titel: this field can't be edited; did you mean title?"),
    (FULL, ("aliases=aBZc/1",), "aliases: this field can't be edited"),
    (FULL, ("transferable=no",), "transferable: 'no' is neither true nor false"),
    (FULL, ("next_edition=http://urlib.net/aBZc/1!",), "accepts only aBZc/1"),
    (FULL, (f"metadata.ibi={NEW}",), "metadata.ibi: the item has metadata.dc; change this field"),
    (FULL, ('creators=[{"name": "Silva"',), "creators: the text is not JSON: "),
    (FULL, ('creators=[{"nome": "Silva"}]',), "creators[0].nome: this field is unknown"),
    (PLAIN, ("issued=2009",), "titles: the field is missing"),
    (WORK, ("titles.lang=en",), "lang is part of a list; write the whole list"),
]


def test_a_wrong_argument_is_named_and_nothing_is_changed(shelf: Flask) -> None:
    for ibi, words, reason in WRONG:
        with unchanged(shelf):
            assert reason in command(shelf, "edit", ibi, *words).usage, words


#: The item, the arguments, and a part of the error message.
REFUSED: list[tuple[str, tuple[str, ...], str]] = [
    (COPY, ("title=T",), f"{COPY} has the state Copy: it can't be edited"),
    (FAR_METADATA, ("title=T",), "an item whose metadata are elsewhere can't have the fields"),
    (FULL, ("issued=2009",), "the item has Dublin Core that would be lost (format)"),
    (FULL, ("--remove-file", "c.txt"), "the item has no file c.txt; the files are: a.txt, b.txt"),
    (FULL, ("--add-file", "a.txt"), "already has a file a.txt; remove that file to replace it"),
]


def test_an_edit_that_is_refused_changes_nothing(
    shelf: Flask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("a")
    for ibi, words, reason in REFUSED:
        with unchanged(shelf):
            assert reason in command(shelf, "edit", ibi, *words).error, words
