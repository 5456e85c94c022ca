"""The commands add, copy, transfer and delete."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unicodedata import normalize
from urllib.parse import quote

import pytest
from flask import Flask
from support.archives import FAR_SERVICE, SERVICE, archive_of, paths_in_store
from support.commands import Outcome, command, show, unchanged
from support.pages import see
from support.web import NOBODY, ask, ask_urls

NewApp = Callable[..., Flask]


def shown(app: Flask, outcome: Outcome) -> dict[str, Any]:
    """Return the item whose identifiers the command add printed."""
    [line] = outcome.lines
    rep, ibip = line.split("\t")
    item = show(app, rep)
    assert item == show(app, ibip)
    assert (item["rep"], item["ibip"], item["state"]) == (rep, ibip, "Original")
    return item


def nothing_is_here(app: Flask) -> bool:
    return command(app, "list").lines[1:] == [] and not paths_in_store(archive_of(app))


def test_add_prints_the_identifiers_of_an_item_that_has_the_file(app: Flask, report: Path) -> None:
    outcome = command(app, "add", report)
    item = shown(app, outcome)
    [file] = item["files"]
    assert file["path"] == "report.pdf"
    assert Path(file["source"]).read_bytes() == report.read_bytes()
    assert "metadata" not in item
    answer = ask(app, f"/col/{item['rep']}/doc/report.pdf")
    assert (answer.status, answer.body) == (200, report.read_bytes())
    # the persistent URL is on standard error and in JSON
    assert outcome.err == f"persistent URL: http://urlib.net/{item['ibip']}\n"
    added = json.loads(command(app, "add", report, "--json").data)
    assert set(added) == {"rep", "ibip", "persistent_url"}
    assert added["persistent_url"] == f"http://urlib.net/{added['ibip']}"
    assert added["persistent_url"] in see(app, f"/col/{added['rep']}/").links
    assert show(app, added["persistent_url"])["ibip"] == added["ibip"]


def test_composed_and_decomposed_names_of_files_are_the_same(app: Flask, tmp_path: Path) -> None:
    name = "dissertação.pdf"
    decomposed, composed = tmp_path / normalize("NFD", name), tmp_path / "b" / name
    for path in (decomposed, composed):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"%PDF")
    item = shown(app, command(app, "add", decomposed))
    assert item["files"][0]["path"] == name
    for form in ("NFC", "NFD"):
        assert ask(app, f"/col/{item['rep']}/doc/{quote(normalize(form, name))}").status == 200
    # two of them in one item are one line
    said = command(app, "edit", item["rep"], "--add-file", composed).error
    assert said == f"the item already has a file {name}; remove that file to replace it"
    assert f"two files are named {name}" in command(app, "add", decomposed, composed).error
    # a table finds the file, whatever form the system gave its name
    table = tmp_path / "theses.csv"
    table.write_text(f"title,files\nT,{name}\n", "utf-8")
    assert command(app, "import", table, "--mint").data == "added 1, updated 0, skipped 0\n"
    command(app, "edit", item["rep"], "--add-file", tmp_path / "theses.csv")
    command(app, "edit", item["rep"], "--remove-file", normalize("NFD", name))
    assert [file["path"] for file in show(app, item["rep"])["files"]] == ["theses.csv"]


def test_the_options_are_stored(app: Flask, report: Path) -> None:
    fields = ("metadata.dc.subject=hydrology", "same_as=10.5281/zenodo.1", "same_as=hdl:20.500/1")
    words = [word for text in fields for word in ("--set", text)]
    names = ("--title", "é", "--creator", "Banon", "--creator", "Costa", "--language", "pt-BR")
    item = shown(app, command(app, "add", report, *names, *words))
    assert item["metadata"]["dc"] == {
        "title": ["é"], "creator": ["Banon", "Costa"], "subject": ["hydrology"]
    }  # fmt: skip
    assert item["language"] == "pt-BR"
    assert item["same_as"] == ["doi:10.5281/zenodo.1", "hdl:20.500/1"]


def test_add_with_a_wrong_argument_writes_nothing(app: Flask, report: Path) -> None:
    both = ("--edition-of", NOBODY, "--translation-of", NOBODY, "--language", "pt")
    for words, reason in (
        (("--set", "access.networks=all"), "access.networks[0]: 'all' is not a network"),
        (("--set", "titel=A"), "titel: this field can't be edited; did you mean title?"),
        (("--title", ""), "an option has an empty text; omit the option"),
        (("--translation-of", NOBODY), "--translation-of needs --language, the language of the"),
        (both, "--edition-of can't be used with --translation-of"),
        ((report.parent / "none.pdf",), "does not exist"),
    ):
        assert reason in command(app, "add", report, *words).usage, words
        assert nothing_is_here(app), words


def test_add_that_is_refused_writes_nothing(new_app: NewApp, app: Flask, report: Path) -> None:
    for option in ("--edition-of", "--translation-of"):
        for text, reason in ((NOBODY, f"the identifier {NOBODY}"), ("x", "'x' is not an IBI")):
            words = (option, text, "--language", "pt")
            assert reason in command(app, "add", report, *words).error
    other = report.parent / "other" / report.name
    other.parent.mkdir()
    other.write_text("other")
    assert command(app, "add", report, other).error == (
        "two files are named report.pdf; the files of an item need different names"
    )
    assert nothing_is_here(app)
    without_ip = new_app(IBI_ARCHIVE_IP=None)
    assert command(without_ip, "add", report).error.startswith("IBI_ARCHIVE_IP is not set")
    without_folder = new_app(IBI_FILES_FOLDER=str(report / "files"))
    assert "files can't be written: " in command(without_folder, "add", report).error
    assert nothing_is_here(app)


def test_add_makes_the_next_edition_or_a_translation(here: Flask, report: Path) -> None:
    def add(*words: str) -> dict[str, Any]:
        return shown(here, command(here, "add", report, *words))

    first = add("--title", "First", "--language", "en")
    second = add("--edition-of", first["ibip"].lower())
    assert show(here, first["rep"])["next_edition"] == second["rep"]
    # the new edition inherits nothing
    assert {"metadata", "language", "next_edition"}.isdisjoint(second)
    assert second["rep"] in ask_urls(here, first["rep"], "GetLastEdition")["ibi.lastedition"]
    portuguese = add("--translation-of", first["rep"], "--language", "pt-BR")
    pairs = ask_urls(here, portuguese["ibip"], "GetTranslation(en)")
    assert first["rep"] in pairs["ibi.translation(en)"]


NOWHERE = "sid.inpe.br/mtc-m99@80/2009/08.21.17.02"


def add(app: Flask, file: Path, *words: str) -> tuple[str, str]:
    """Add an item and return its identifiers."""
    [line] = command(app, "add", file, "--title", "A report", *words).lines
    ibi, ibip = line.split("\t")
    return ibi, ibip


# --- copy, transfer and delete -------------------------------------------------------------------


def test_copy_makes_a_copy_there_or_here(here: Flask, there: Flask, report: Path) -> None:
    ibi, ibip = add(here, report)
    said = command(here, "copy", ibip.lower(), "--to", FAR_SERVICE.upper()).lines
    assert said == [f"copied {ibi} to {FAR_SERVICE}"]
    copy = show(there, ibi)
    assert (copy["state"], copy["original_archive"]) == ("Copy", SERVICE)
    assert (copy["rep"], copy["ibip"]) == (ibi, ibip)
    assert show(here, ibi)["state"] == "Original"
    assert ask(there, f"/col/{ibi}/doc/report.pdf").body == report.read_bytes()
    other, _ = add(there, report)
    assert command(here, "copy", other).lines == [f"copied {other} to {SERVICE}"]
    assert show(here, other)["original_archive"] == FAR_SERVICE


@pytest.mark.parametrize(
    ("words", "left", "remains"),
    [((), "Deleted", "a tombstone"), (("--keep-copy",), "Copy", "a copy")],
)
def test_transfer_hands_the_original_over(
    here: Flask, there: Flask, report: Path, words: tuple[str, ...], left: str, remains: str
) -> None:
    ibi, ibip = add(here, report)
    [line] = command(here, "transfer", ibip, "--to", FAR_SERVICE, *words).lines
    assert line == f"transferred {ibi} to {FAR_SERVICE}; {remains} remains here"
    assert (show(here, ibi)["state"], show(there, ibi)["state"]) == (left, "Original")
    assert show(there, ibi)["ibip"] == ibip
    assert ask(there, f"/col/{ibi}/doc/report.pdf").body == report.read_bytes()
    assert ask(here, f"/col/{ibi}/").status == (410 if left == "Deleted" else 200)


WITHDRAWN = "--yes", "--reason", "Withdrawn"


def test_delete_leaves_a_tombstone_and_perhaps_no_description(here: Flask, report: Path) -> None:
    ibi, ibip = add(here, report)
    words = (*WITHDRAWN, "--citation", "Banon, 2009", "--successor", NOBODY.upper())
    [line] = command(here, "delete", ibip.lower(), *words).lines
    url = f"http://mtc-m16c.sid.inpe.br/col/{ibi}/"
    assert line == f"deleted {ibi}; {url} now shows the tombstone (410)"
    removed = show(here, ibi)
    assert removed["state"] == "Deleted"
    tombstone = {"reason": "Withdrawn", "citation": "Banon, 2009", "successor": NOBODY}
    assert removed["tombstone"] == tombstone
    told = command(here, "show", ibip).lines
    for fact in ("state Deleted", "tombstone.reason Withdrawn", f"tombstone.successor {NOBODY}"):
        assert fact in told
    assert ask_urls(here, ibi)["state"] == ("Deleted",)
    # the description can be discarded later
    options = ("--yes", "--reason", "Requested by the author", "--discard-description")
    assert command(here, "delete", ibi, *options).status == 0
    left = show(here, ibi)
    assert (removed.pop("metadata"), "metadata" in left) == ({"dc": {"title": ["A report"]}}, False)
    removed["tombstone"] = {"reason": "Requested by the author", "successor": NOBODY}
    assert left == removed
    assert "has the state Deleted" in command(here, "delete", ibi, "--yes", "--reason", "x").error


def test_what_is_refused_changes_nothing(here: Flask, there: Flask, report: Path) -> None:
    ibi, _ = add(here, report)
    gone, _ = add(here, report)
    command(here, "delete", gone, *WITHDRAWN)
    with unchanged(here, there):
        to = ("--to", FAR_SERVICE)
        for name, *options in (("copy", *to), ("transfer", *to), ("delete", *WITHDRAWN)):
            for text, reason in (
                ("report", "'report' is not an IBI"),
                (NOBODY, f"no item of this Archive has the identifier {NOBODY}"),
                (gone, f"{gone} has the state Deleted: it can't be"),
                (SERVICE, SERVICE),
            ):
                assert reason in command(here, name, text, *options).error
        for name in ("copy", "transfer"):
            assert NOWHERE in command(here, name, ibi, "--to", NOWHERE).error
            assert command(here, name, ibi, "--to", SERVICE).error
        assert SERVICE in command(here, "edit", SERVICE, "title=x").error
        assert "Missing option '--to'" in command(here, "transfer", ibi).usage
        assert "Missing option '--reason'" in command(here, "delete", ibi, "--yes").usage
        assert "--reason is empty" in command(here, "delete", ibi, "--yes", "--reason", "").usage
