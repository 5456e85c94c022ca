"""Tests of the command add."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from support.archives import archive_of, paths_in_store
from support.commands import Outcome, command, unchanged
from support.pages import see
from support.web import NOBODY

from flask_ibi_archive.archive.items.commands import OPTIONS
from flask_ibi_archive.core.records.record import ELEMENTS

NewApp = Callable[..., Flask]


def shown(app: Flask, outcome: Outcome) -> dict[str, Any]:
    """Return the item whose identifiers the command add printed."""
    [line] = outcome.lines
    rep, ibip = line.split("\t")
    item: dict[str, Any] = json.loads(command(app, "show", rep, "--json").data)
    assert item == json.loads(command(app, "show", ibip, "--json").data)
    assert (item["rep"], item["ibip"], item["state"]) == (rep, ibip, "Original")
    return item


def nothing_is_here(app: Flask) -> bool:
    return command(app, "list").data == "" and not paths_in_store(archive_of(app))


def test_add_prints_the_identifiers_of_an_item_that_has_the_file(app: Flask, report: Path) -> None:
    item = shown(app, command(app, "add", report))
    [file] = item["files"]
    assert file["path"] == "report.pdf"
    assert Path(file["source"]).read_bytes() == report.read_bytes()
    assert "metadata" not in item
    with app.test_client().get(f"/col/{item['rep']}/doc/report.pdf") as answer:
        assert (answer.status_code, answer.data) == (200, report.read_bytes())


def test_add_names_the_persistent_url_on_standard_error_and_in_json(
    app: Flask, report: Path
) -> None:
    outcome = command(app, "add", report)
    ibip = outcome.out.split()[1]
    assert (outcome.status, outcome.err) == (0, f"persistent URL: http://urlib.net/{ibip}\n")
    added = json.loads(command(app, "add", report, "--json").data)
    assert set(added) == {"rep", "ibip", "persistent_url"}
    assert added["persistent_url"] == f"http://urlib.net/{added['ibip']}"
    page = see(app, f"/col/{added['rep']}/")
    assert added["persistent_url"] in page.links
    shown_again = json.loads(command(app, "show", added["persistent_url"], "--json").data)
    assert shown_again["ibip"] == added["ibip"]


def test_add_takes_several_files_and_the_first_is_the_target(app: Flask, tmp_path: Path) -> None:
    names = ["b.txt", "a b+c@1%20.csv", "Relatório Final.pdf", "日本語 😀.txt"]
    for name in names:
        (tmp_path / name).write_text(name, encoding="utf-8")
    item = shown(app, command(app, "add", *(tmp_path / name for name in names)))
    assert [file["path"] for file in item["files"]] == names
    [url] = [
        line for line in command(app, "url-list", item["ibip"]).lines if line.startswith("url ")
    ]
    assert url.endswith(f"/col/{item['rep']}/doc/b.txt")


def test_each_element_of_dublin_core_has_an_option_that_may_be_repeated(
    app: Flask, report: Path
) -> None:
    words = [word for name in OPTIONS for word in (f"--{name}", f"{name} é", f"--{name}", "2")]
    item = shown(app, command(app, "add", report, *words, "--language", "pt-BR"))
    assert item["language"] == "pt-BR"
    assert item["metadata"]["dc"] == {name: [f"{name} é", "2"] for name in OPTIONS}
    # the item has identifier and language in other fields; format has no option
    assert set(ELEMENTS) - set(OPTIONS) == {"identifier", "language", "format"}


def test_the_other_options_are_stored(app: Flask, report: Path) -> None:
    item = shown(
        app,
        command(
            app, "add", report, "--content-type", "Metadata", "--network", "150.163.0.0/16",
            "--network", "2001:db8::/32", "--others", "none", "--no-file-list",
            "--embargo", "2027-03-01",
        ),
    )  # fmt: skip
    assert item["content_type"] == "Metadata"
    assert item["access"] == {"networks": ["150.163.0.0/16", "2001:db8::/32"], "others": "none"}
    assert item["embargo"] == "2027-03-01"
    assert item["list_files"] is False


def test_two_items_of_the_same_file_are_two_items(app: Flask, report: Path) -> None:
    first, second = (shown(app, command(app, "add", report)) for _ in range(2))
    assert {first["rep"], first["ibip"]}.isdisjoint({second["rep"], second["ibip"]})
    assert first["files"] == second["files"]


def test_add_warns_of_a_private_address_on_standard_error(new_app: NewApp, report: Path) -> None:
    app = new_app(IBI_ARCHIVE_IP="10.0.0.1")
    command(app, "init")
    outcome = command(app, "add", report)
    assert outcome.status == 0
    assert len(outcome.out.split("\t")) == 2
    assert outcome.err.startswith("Warning: IBI_ARCHIVE_IP is 10.0.0.1, a private address")


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"IBI_ARCHIVE_IP": None}, "IBI_ARCHIVE_IP is not set"),
        ({"IBI_MINT_HOST": "localhost"}, "IBI_MINT_HOST is 'localhost'"),
    ],
)
def test_add_that_cannot_mint_names_the_key_and_writes_nothing(
    new_app: NewApp, report: Path, settings: dict[str, str | None], key: str
) -> None:
    app = new_app(**settings)
    command(app, "init")
    assert command(app, "add", report).error.startswith(key)
    assert nothing_is_here(app)


def test_add_with_a_wrong_option_is_a_wrong_call_and_writes_nothing(
    app: Flask, report: Path
) -> None:
    for words, reason in (
        (("--network", "everywhere"), "--network: 'everywhere' is not a network"),
        (("--network", "150.163.1.0/16"), "did you mean 150.163.0.0/16?"),
        (("--embargo", "2027-02-29"), "--embargo: '2027-02-29' is not a day such as 2027-03-01"),
        (("--language", "english"), "--language: 'english' is not a language"),
        (("--others", "everything"), "'everything' is not one of"),
        (("--content-type", "Text"), "'Text' is not one of"),
        (("--title", "bell \a"), "--title: the text contains a control character"),
        (("--title", "half \ud800"), "--title: the text contains half of a surrogate pair"),
    ):
        assert reason in command(app, "add", report, *words).usage, words
        assert nothing_is_here(app), words


def test_add_of_a_file_that_is_not_there_is_a_wrong_call(app: Flask, tmp_path: Path) -> None:
    assert "does not exist" in command(app, "add", tmp_path / "none.pdf").usage
    assert "is a directory" in command(app, "add", tmp_path).usage
    assert nothing_is_here(app)


def test_add_of_two_files_of_one_name_is_an_error(app: Flask, report: Path) -> None:
    other = report.parent / "other" / report.name
    other.parent.mkdir()
    other.write_text("other")
    assert command(app, "add", report, other).error == (
        "two files are named report.pdf; the files of an item need different names"
    )
    assert nothing_is_here(app)


def test_add_is_an_error_if_files_cannot_be_stored(new_app: NewApp, report: Path) -> None:
    command(new_app(), "init")
    app = new_app(IBI_FILES_FOLDER=str(report / "files"))
    assert "files can't be written: " in command(app, "add", report).error
    assert command(app, "list").data == ""


# --- editions and translations


def test_add_of_an_edition_makes_it_the_next_one(here: Flask, report: Path) -> None:
    first = shown(here, command(here, "add", report, "--title", "First", "--language", "en"))
    second = shown(here, command(here, "add", report, "--edition-of", first["ibip"].lower()))
    assert command(here, "show", first["rep"]).lines.count(f"next_edition {second['rep']}") == 1
    # the new edition inherits nothing
    assert {"metadata", "language", "next_edition"}.isdisjoint(second)
    third = shown(here, command(here, "add", report, "--edition-of", second["rep"]))
    [last] = [
        line
        for line in command(here, "url-list", first["rep"], "--verbs", "GetLastEdition").lines
        if line.startswith("ibi.lastedition ")
    ]
    assert third["rep"] in last


def test_add_of_a_translation_joins_the_two(here: Flask, report: Path) -> None:
    english = shown(here, command(here, "add", report, "--language", "en"))
    portuguese = shown(
        here,
        command(here, "add", report, "--translation-of", english["rep"], "--language", "pt-BR"),
    )
    assert portuguese["language"] == "pt-BR"
    for one, language, other in (
        (english, "pt-BR", portuguese),
        (portuguese, "en", english),
    ):
        pairs = command(
            here, "url-list", one["ibip"], "--verbs", f"GetTranslation({language})"
        ).data
        assert f"ibi.translation({language}) {{rep {other['rep']}" in pairs


@pytest.mark.parametrize("option", ["--edition-of", "--translation-of"])
def test_an_edition_or_translation_may_have_a_reserved_identifier(
    here: Flask, report: Path, option: str
) -> None:
    first = shown(here, command(here, "add", report, "--language", "en"))
    [reserved] = command(here, "reserve").lines
    words = (option, first["rep"], "--language", "pt", "--reserved", reserved.split("\t")[1])
    assert command(here, "add", report, *words).lines == [reserved]


def test_a_translation_needs_its_language(here: Flask, report: Path) -> None:
    first = shown(here, command(here, "add", report, "--language", "en"))
    with unchanged(here):
        words = ("--translation-of", first["rep"])
        assert command(here, "add", report, *words).usage == (
            "--translation-of needs --language, the language of the translation"
        )


def test_an_item_is_not_added_as_an_edition_and_a_translation(here: Flask, report: Path) -> None:
    words = ("--edition-of", NOBODY, "--translation-of", NOBODY, "--language", "pt")
    assert "can't be used with" in command(here, "add", report, *words).usage


@pytest.mark.parametrize("option", ["--edition-of", "--translation-of"])
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (NOBODY, f"no item of this Archive has the identifier {NOBODY}"),
        ("report", "'report' is not an IBI"),
    ],
)
def test_add_to_an_item_that_is_not_here_writes_nothing(
    here: Flask, report: Path, option: str, text: str, reason: str
) -> None:
    with unchanged(here):
        assert reason in command(here, "add", report, option, text, "--language", "pt").error


def test_an_item_has_one_next_edition_and_one_translation_into_a_language(
    here: Flask, report: Path
) -> None:
    first = shown(here, command(here, "add", report, "--language", "en"))["rep"]
    command(here, "add", report, "--edition-of", first)
    command(here, "add", report, "--translation-of", first, "--language", "pt")
    with unchanged(here):
        assert first in command(here, "add", report, "--edition-of", first).error
        for language in ("pt", "en"):
            words = ("--translation-of", first, "--language", language)
            assert language in command(here, "add", report, *words).error
