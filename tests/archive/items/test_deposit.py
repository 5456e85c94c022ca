"""Tests of the command add."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flask import Flask
from support.archives import archive_of, paths_in_store
from support.commands import Outcome, command, show
from support.pages import see
from support.web import NOBODY, ask, ask_urls

from flask_ibi_archive.archive.items.commands import OPTIONS
from flask_ibi_archive.core.records.record import ELEMENTS

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
    return command(app, "list").data == "" and not paths_in_store(archive_of(app))


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


def test_add_takes_several_files_and_the_first_is_the_target(app: Flask, tmp_path: Path) -> None:
    names = ["b.txt", "a b+c@1%20.csv", "Relatório Final.pdf", "日本語 😀.txt"]
    for name in names:
        (tmp_path / name).write_text(name, encoding="utf-8")
    item = shown(app, command(app, "add", *(tmp_path / name for name in names)))
    assert [file["path"] for file in item["files"]] == names
    [url] = ask_urls(app, item["ibip"])["url"]
    assert url.endswith(f"/col/{item['rep']}/doc/b.txt")


def test_the_options_are_stored(app: Flask, report: Path) -> None:
    words = [word for name in OPTIONS for word in (f"--{name}", f"{name} é", f"--{name}", "2")]
    item = shown(
        app,
        command(
            app, "add", report, *words, "--language", "pt-BR",
            "--content-type", "Metadata", "--network", "150.163.0.0/16",
            "--network", "2001:db8::/32", "--others", "none", "--no-file-list",
            "--embargo", "2027-03-01", "--same-as", "10.5281/zenodo.1", "--same-as", "hdl:20.500/1",
        ),
    )  # fmt: skip
    assert item["language"] == "pt-BR"
    assert item["metadata"]["dc"] == {name: [f"{name} é", "2"] for name in OPTIONS}
    # the item has identifier and language in other fields; format has no option
    assert set(ELEMENTS) - set(OPTIONS) == {"identifier", "language", "format"}
    assert item["access"] == {"networks": ["150.163.0.0/16", "2001:db8::/32"], "others": "none"}
    assert (item["content_type"], item["embargo"]) == ("Metadata", "2027-03-01")
    assert item["same_as"] == ["doi:10.5281/zenodo.1", "hdl:20.500/1"]
    assert item["list_files"] is False


def test_add_with_a_wrong_argument_is_a_wrong_call_and_writes_nothing(
    app: Flask, report: Path
) -> None:
    both = ("--edition-of", NOBODY, "--translation-of", NOBODY, "--language", "pt")
    for words, reason in (
        (("--network", "everywhere"), "--network: 'everywhere' is not a network"),
        (("--others", "none"), "--network: the list must have at least one network"),
        (("--others", "everything"), "'everything' is not one of"),
        (("--title", ""), "--title: the text is empty; omit the option"),
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


# --- editions and translations


def test_add_makes_the_next_edition_or_a_translation(here: Flask, report: Path) -> None:
    def add(*words: str) -> dict[str, Any]:
        return shown(here, command(here, "add", report, *words))

    first = add("--title", "First", "--language", "en")
    second = add("--edition-of", first["ibip"].lower())
    assert show(here, first["rep"])["next_edition"] == second["rep"]
    # the new edition inherits nothing
    assert {"metadata", "language", "next_edition"}.isdisjoint(second)
    third = add("--edition-of", second["rep"])
    assert third["rep"] in ask_urls(here, first["rep"], "GetLastEdition")["ibi.lastedition"]
    portuguese = add("--translation-of", third["rep"], "--language", "pt-BR")
    assert portuguese["language"] == "pt-BR"
    command(here, "edit", third["rep"], "language=en")
    for one, language, other in ((third, "pt-BR", portuguese), (portuguese, "en", third)):
        pairs = ask_urls(here, one["ibip"], f"GetTranslation({language})")
        assert other["rep"] in pairs[f"ibi.translation({language})"]
