"""Tests of the command edit."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from support.archives import archive_of, import_records
from support.commands import command, unchanged
from support.web import NOBODY, ask, rep

from flask_ibi_archive.archive.items.commands import OPTIONS

FULL, PLAIN, FAR_METADATA, URL_METADATA, GONE, COPY = (rep(number) for number in range(1, 7))
NEW, PORTUGUESE, OLD, EARLIER = (rep(number) for number in range(7, 11))
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
        FULL: {
            "timestamp": "2009-07-21T13:23:45Z",
            "language": "en",
            "metadata": {"dc": DC},
            "files": files,
            "access": RULE,
            "embargo": "2001-01-01",
        },
        PLAIN: {"files": files[:1]},
        FAR_METADATA: {"metadata": {"ibi": NOBODY}},
        URL_METADATA: {"metadata": {"url": METADATA_URL}},
        GONE: {"state": "Deleted", "timestamp": "2010-01-02T03:04:05Z"},
        COPY: {"state": "Copy", "original_archive": FAR_ARCHIVE},
        PORTUGUESE: {"language": "pt"},
        EARLIER: {"next_edition": NEW},
    }
    return {"rep": ibi, **kinds.get(ibi, {})}


@pytest.fixture
def shelf(here: Flask, tmp_path: Path) -> Flask:
    """An app with an item of each kind; tests must not change them."""
    if archive_of(here).get(FULL) is None:
        kinds = (
            FULL, PLAIN, FAR_METADATA, URL_METADATA, GONE, COPY, NEW, PORTUGUESE, OLD, EARLIER,
        )  # fmt: skip
        import_records(archive_of(here), [record(ibi, tmp_path) for ibi in kinds])
    return here


def another(app: Flask, kind: str, folder: Path) -> str:
    """Add an item of a kind, which the test may change, and return its identifier."""
    number = next(NUMBERS)
    ibi = f"sid.inpe.br/mtc-m18@80/2010/01.01.{number // 60:02d}.{number % 60:02d}"
    import_records(archive_of(app), [{**record(kind, folder), "rep": ibi}])
    return ibi


def shown(app: Flask, ibi: str) -> dict[str, Any]:
    """Return an item as the command show prints it, without its timestamp."""
    item: dict[str, Any] = json.loads(command(app, "show", ibi, "--json").data)
    item["files"] = [file["path"] for file in item.get("files", [])]
    del item["timestamp"]
    return item


#: Item, options, and the fields that differ afterwards (None: the field was removed).
EDITS: list[tuple[str, tuple[str, ...], dict[str, Any]]] = [
    (FULL, ("--title", "Another"), {"metadata": {"dc": {**DC, "title": ["Another"]}}}),
    (
        FULL,
        ("--creator", "Banon", "--creator", "Costa", "--rights", "CC BY 4.0"),
        {"metadata": {"dc": {**DC, "creator": ["Banon", "Costa"], "rights": ["CC BY 4.0"]}}},
    ),
    (
        FULL,
        ("--creator", ""),
        {"metadata": {"dc": {name: DC[name] for name in ("title", "format")}}},
    ),
    (FULL, ("--no-metadata", "--title", "New"), {"metadata": {"dc": {"title": ["New"]}}}),
    (FULL, ("--no-metadata",), {"metadata": None}),
    (FULL, ("--metadata-item", "OTHER"), {"metadata": {"ibi": "OTHER"}}),
    (FULL, ("--metadata-item", NOBODY), {"metadata": {"ibi": NOBODY}}),
    (FULL, ("--metadata-url", METADATA_URL), {"metadata": {"url": METADATA_URL}}),
    (PLAIN, ("--title", "First"), {"metadata": {"dc": {"title": ["First"]}}}),
    (URL_METADATA, ("--no-metadata", "--title", "T"), {"metadata": {"dc": {"title": ["T"]}}}),
    (FAR_METADATA, ("--no-metadata",), {"metadata": None}),
    (FULL, ("--language", "pt-BR"), {"language": "pt-BR"}),
    (FULL, ("--no-language",), {"language": None}),
    (PLAIN, ("--content-type", "Metadata"), {"content_type": "Metadata"}),
    (FULL, ("--open",), {"access": None}),
    (FULL, ("--network", "10.0.0.0/8"), {"access": {**RULE, "networks": ["10.0.0.0/8"]}}),
    (FULL, ("--others", "metadata"), {"access": {"networks": ["150.163.0.0/16"]}}),
    (
        PLAIN,
        ("--network", "10.0.0.0/8", "--network", "2001:db8::/32", "--others", "none"),
        {"access": {"networks": ["10.0.0.0/8", "2001:db8::/32"], "others": "none"}},
    ),
    (PLAIN, ("--embargo", "2027-03-01"), {"embargo": "2027-03-01"}),
    (FULL, ("--embargo", "2028-02-29"), {"embargo": "2028-02-29"}),
    (FULL, ("--no-embargo",), {"embargo": None}),
    (FULL, ("--no-file-list",), {"list_files": False}),
    (FULL, ("--file-list",), {}),
    (FULL, ("--not-transferable",), {"transferable": False}),
    (FULL, ("--transferable",), {}),
    (FULL, ("--next-edition", "OTHER"), {"next_edition": "OTHER"}),
    (FULL, ("--no-next-edition",), {}),
    (FULL, ("--translation", "fr=OTHER"), {"translations": {"fr": "OTHER"}}),
    (FULL, ("--target-file", "b.txt"), {"target_file": "b.txt"}),
    (
        FULL,
        ("--title", "Another", "--no-language", "--open", "--target-file", "b.txt"),
        {
            "metadata": {"dc": {**DC, "title": ["Another"]}},
            "language": None,
            "access": None,
            "target_file": "b.txt",
        },
    ),
]


def test_edit_changes_only_the_fields_of_its_options(here: Flask, tmp_path: Path) -> None:
    for kind, options, changes in EDITS:
        ibi, other = another(here, kind, tmp_path), another(here, OLD, tmp_path)
        words = [word.replace("OTHER", other.upper()) for word in options]
        before = shown(here, ibi)
        assert command(here, "edit", ibi.upper(), *words).lines == [f"edited {ibi}"], words
        expected = json.loads(json.dumps({**before, **changes}).replace("OTHER", other))
        assert shown(here, ibi) == {
            name: value for name, value in expected.items() if value is not None
        }, words


@pytest.fixture
def full(here: Flask, tmp_path: Path) -> str:
    """An item with all fields, which the test may change."""
    return another(here, FULL, tmp_path)


def test_edit_replaces_the_files(here: Flask, full: str, tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("another b")
    (tmp_path / "c.txt").write_text("c")
    words = ("--file", tmp_path / "c.txt", "--file", tmp_path / "b.txt")
    assert command(here, "edit", full, *words).lines == [f"edited {full}"]
    assert shown(here, full)["files"] == ["c.txt", "b.txt"]
    for path, status, data in (("c.txt", 200, b"c"), ("b.txt", 200, b"another b")):
        answer = ask(here, f"/col/{full}/doc/{path}")
        assert (answer.status, answer.body) == (status, data)
    assert ask(here, f"/col/{full}/doc/a.txt").status == 404


def test_edit_replaces_files_and_changes_the_rest_at_once(
    here: Flask, full: str, tmp_path: Path
) -> None:
    (tmp_path / "c.txt").write_text("c")
    words = ("--file", tmp_path / "c.txt", "--file", tmp_path / "b.txt", "--target-file", "b.txt")
    assert command(here, "edit", full, *words, "--title", "T", "--language", "pt").status == 0
    item = shown(here, full)
    assert (item["files"], item["target_file"]) == (["c.txt", "b.txt"], "b.txt")
    assert (item["metadata"]["dc"]["title"], item["language"]) == (["T"], "pt")


def test_edit_sets_the_timestamp(here: Flask, full: str) -> None:
    command(here, "edit", full, "--title", "Another")
    told = json.loads(command(here, "show", full, "--json").data)
    assert told["timestamp"] > "2009-07-21T13:23:45Z"


def test_a_translation_that_is_named_joins_those_that_are_there(
    here: Flask, full: str, tmp_path: Path
) -> None:
    french, german = (another(here, OLD, tmp_path) for _ in range(2))
    command(here, "edit", full, "--translation", f"fr={french}")
    command(here, "edit", full, "--translation", f"de={german}")
    assert shown(here, full)["translations"] == {"de": german, "fr": french}
    pairs = command(here, "url-list", german, "--verbs", "GetTranslation(fr)").data
    assert f"ibi.translation(fr) {{rep {french}}}" in pairs.splitlines()
    command(here, "edit", full, "--no-translations")
    assert "translations" not in shown(here, full)
    assert (
        "translation" not in command(here, "url-list", full, "--verbs", "GetTranslation(fr)").data
    )


def paths(app: Flask, ibi: str) -> list[str]:
    found: list[str] = shown(app, ibi)["files"]
    return found


def test_a_single_file_is_added_replaced_and_removed(
    here: Flask, full: str, tmp_path: Path
) -> None:
    for name in ("c.txt", "d.txt"):
        (tmp_path / name).write_text(f"new {name}")
    words = ("--add-file", tmp_path / "c.txt", "--add-file", tmp_path / "d.txt")
    assert command(here, "edit", full, *words).status == 0
    assert paths(here, full) == ["a.txt", "b.txt", "c.txt", "d.txt"]
    assert ask(here, f"/col/{full}/doc/c.txt", remote="150.163.1.1").body == b"new c.txt"
    assert ask(here, f"/col/{full}/doc/a.txt", remote="150.163.1.1").body == b"a.txt"
    command(here, "edit", full, "--target-file", "d.txt")
    assert command(here, "edit", full, "--remove-file", "b.txt").status == 0
    assert paths(here, full) == ["a.txt", "c.txt", "d.txt"]
    assert shown(here, full)["target_file"] == "d.txt"
    # without a target file, the first file is the target
    assert command(here, "edit", full, "--remove-file", "d.txt").status == 0
    assert "target_file" not in shown(here, full)
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "a.txt").write_text("newer")
    words = ("--remove-file", "a.txt", "--add-file", tmp_path / "new" / "a.txt")
    assert command(here, "edit", full, *words).status == 0
    assert paths(here, full) == ["c.txt", "a.txt"]
    assert ask(here, f"/col/{full}/doc/a.txt", remote="150.163.1.1").body == b"newer"
    command(here, "edit", full, "--remove-file", "a.txt", "--remove-file", "c.txt")
    assert paths(here, full) == []


def test_a_removed_alias_can_be_added_to_another_item(
    here: Flask, full: str, tmp_path: Path
) -> None:
    alias, second = "aBZc/1", "8JMKD3MGP8W/34PGRBS"
    words = ("--add-alias", f"http://urlib.net/{alias}", "--add-alias", second.lower())
    assert command(here, "edit", full, *words).status == 0
    assert shown(here, full)["aliases"] == [alias, second]
    assert shown(here, alias)["rep"] == full
    other = another(here, PLAIN, tmp_path)
    with unchanged(here):
        assert (
            "already has this identifier"
            in command(here, "edit", other, "--add-alias", alias).error
        )
        repeated = command(here, "edit", full, "--add-alias", alias).error
        assert repeated.endswith(f"aliases: {alias} is already an identifier of the item")
    assert command(here, "edit", full, "--remove-alias", alias).status == 0
    assert shown(here, full)["aliases"] == [second]
    assert "no item of this Archive" in command(here, "show", alias).error
    assert command(here, "edit", other, "--add-alias", alias).status == 0
    assert shown(here, alias)["rep"] == other
    with unchanged(here):
        refused = command(here, "edit", full, "--remove-alias", alias).error
        assert refused == f"{alias} is not an alias of {full}; the aliases are: {second}"
        assert "is not an alias" in command(here, "edit", full, "--remove-alias", full).error
    for words in (("--remove-alias", second), ("--title", "x")):
        assert command(here, "edit", full, *words).status == 0
    assert command(here, "edit", other, "--remove-alias", alias).status == 0


def test_a_file_that_is_not_there_or_there_already_is_an_error(
    shelf: Flask, tmp_path: Path
) -> None:
    with unchanged(shelf):
        said = command(shelf, "edit", FULL, "--remove-file", "c.txt").error
        assert said == "the item has no file c.txt; the files are: a.txt, b.txt"
        said = command(shelf, "edit", FULL, "--add-file", tmp_path / "a.txt").error
        assert said == "the item already has a file a.txt; remove that file to replace it"


#: Wrong options of edit, and the error message.
WRONG: list[tuple[tuple[str, ...], str]] = [
    ((), "no option says what to change"),
    (("--file", __file__, "--add-file", __file__), "--file and --add-file exclude each other"),
    (("--file", __file__, "--remove-file", "a"), "--file and --remove-file exclude each other"),
    (("--language", "pt", "--no-language"), "--language and --no-language exclude each other"),
    (("--network", "10.0.0.0/8", "--open"), "--network and --open exclude each other"),
    (("--others", "none", "--open"), "--others and --open exclude each other"),
    (("--embargo", "2027-03-01", "--no-embargo"), "--embargo and --no-embargo exclude each other"),
    (("--embargo", "1 March"), "--embargo: '1 March' is not a day such as 2027-03-01"),
    (("--next-edition", NEW, "--no-next-edition"), "exclude each other"),
    (("--translation", f"pt={NEW}", "--no-translations"), "exclude each other"),
    (("--metadata-item", NEW, "--metadata-url", METADATA_URL), "exclude each other"),
    (("--metadata-item", NEW, "--no-metadata"), "exclude each other"),
    (("--metadata-item", NEW, "--title", "T"), "--metadata-item and --title exclude"),
    (("--metadata-url", METADATA_URL, "--date", "2009"), "--metadata-url and --date exclude"),
    (("--language", "english"), "--language: 'english' is not a language"),
    (("--network", "everywhere"), "--network: 'everywhere' is not a network"),
    (("--others", "all"), "'all' is not one of"),
    (("--content-type", "Text"), "'Text' is not one of"),
    (("--next-edition", "report"), "--next-edition: 'report' is not an IBI"),
    (("--translation", "pt"), "--translation: 'pt' must be a pair like pt="),
    (("--translation", "pt=report"), "--translation: 'report' is not an IBI"),
    (("--translation", f"pt={NEW}", "--translation", f"pt={OLD}"), "pt is given twice"),
    (("--metadata-item", "report"), "--metadata-item: 'report' is not an IBI"),
    (("--metadata-url", "ftp://x/y"), "--metadata-url: 'ftp://x/y' is not a URL"),
    (("--title", "bell \a"), "dc.title[0]: the text contains a control character"),
    (("--target-file", "../x"), "--target-file: '../x' is not a path"),
    (("--file", "/none.txt"), "does not exist"),
]


def test_edit_with_wrong_options_is_a_wrong_call_and_changes_nothing(shelf: Flask) -> None:
    with unchanged(shelf):
        for words, reason in WRONG:
            assert reason in command(shelf, "edit", FULL, *words).usage, words


def test_the_option_others_requires_networks(shelf: Flask) -> None:
    with unchanged(shelf):
        refused = command(shelf, "edit", PLAIN, "--others", "none").usage
    assert (
        refused == "--others: everybody has access to the files; restrict the access with --network"
    )


#: The item, the options, and a part of the error message.
REFUSED: list[tuple[str, tuple[str, ...], str]] = [
    (NOBODY, ("--title", "T"), f"no item of this Archive has the identifier {NOBODY}"),
    ("report", ("--title", "T"), "'report' is not an IBI"),
    (GONE, ("--title", "T"), f"{GONE} has the state Deleted: it can't be edited"),
    (COPY, ("--title", "T"), f"{COPY} has the state Copy: it can't be edited"),
    (
        FAR_METADATA,
        ("--title", "T"),
        f"metadata of the item are at {NOBODY}; change the metadata there",
    ),
    (
        URL_METADATA,
        ("--title", "T"),
        f"metadata of the item are at {METADATA_URL}; change the metadata there",
    ),
    (FULL, ("--target-file", "none.txt"), "'none.txt' is not among the files"),
    (FULL, ("--next-edition", FULL), "an item cannot be its own next edition"),
    (FULL, ("--metadata-item", FULL), "an item cannot be its own metadata"),
    (FULL, ("--translation", f"en={NEW}"), "both have the same language"),
    (FULL, ("--translation", f"fr={PORTUGUESE}"), "states the language pt"),
    (OLD, ("--next-edition", NEW), "already the next edition of another item"),
    (NEW, ("--next-edition", EARLIER), "would become a circle"),
]


def test_an_edit_that_is_refused_changes_nothing(shelf: Flask) -> None:
    for ibi, words, reason in REFUSED:
        with unchanged(shelf):
            assert reason in command(shelf, "edit", ibi, *words).error, words


def test_an_edit_whose_files_are_refused_changes_nothing_else(shelf: Flask, tmp_path: Path) -> None:
    other = tmp_path / "other" / "c.txt"
    other.parent.mkdir()
    for path in (tmp_path / "c.txt", other):
        path.write_text("c")
    words = ("--file", tmp_path / "c.txt", "--file", other)
    with unchanged(shelf):
        assert command(shelf, "edit", FULL, "--title", "T", *words).error == (
            "two files are named c.txt; the files of an item need different names"
        )
        words = ("--file", tmp_path / "c.txt", "--target-file", "a.txt")
        assert "a.txt" in command(shelf, "edit", FULL, "--title", "T", *words).error


def test_every_element_can_be_replaced(here: Flask, full: str) -> None:
    words = [word for name in OPTIONS for word in (f"--{name}", f"{name} é", f"--{name}", "2")]
    command(here, "edit", full, *words)
    expected = {name: [f"{name} é", "2"] for name in OPTIONS}
    assert shown(here, full)["metadata"]["dc"] == {**expected, "format": ["text/plain"]}
