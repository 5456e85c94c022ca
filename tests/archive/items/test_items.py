"""The commands show, list and url-list, and persistent URLs as arguments of commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import click
import pytest
from flask import Flask
from support.archives import SERVICE, archive_of, import_records
from support.commands import command, show
from support.web import (
    CLOSED,
    EMPTY,
    FAR,
    GONE,
    HOSTILE,
    NEW,
    NOBODY,
    OLD,
    ONLY_IBIP,
    OUTSIDE,
    REPORT,
    REPORT_ALIAS,
    REPORT_IBIP,
    ask_service,
    without_key,
)

from flask_ibi_archive.archive.commands import ibi
from flask_ibi_archive.archive.items import read
from flask_ibi_archive.resolver.commands import ibi_resolver
from flask_ibi_archive.server.commands.group import read_ibi

NewApp = Callable[..., Flask]


# --- show ----------------------------------------------------------------------------------------


def test_show_finds_an_item_by_any_identifier_in_any_case(web: Flask) -> None:
    for text in [REPORT, REPORT_IBIP, REPORT_ALIAS, REPORT.upper(), REPORT_IBIP.lower()]:
        output = command(web, "show", text).lines
        assert output[:2] == [f"rep {REPORT}", f"ibip {REPORT_IBIP}"]
        assert {
            f"aliases {REPORT_ALIAS}",
            "timestamp 2009-07-21T13:23:45Z",
            "language en",
            "metadata.dc.title.value A report",
            "metadata.dc.creator Banon",
            "files.path Relatório Final.txt",
            "files.path 日本語.txt",
            "state Original",
        } <= set(output)


def test_show_prints_the_same_record_as_export(web: Flask) -> None:
    for line in command(web, "export").lines:
        record = json.loads(line)
        text = record.get("rep") or record["ibip"]
        assert show(web, text) == {"state": "Original", **record}
    # one line for each value
    title = f"metadata.dc.title {' '.join(HOSTILE.split())}"
    assert title in command(web, "show", NEW).lines
    for text in (NOBODY, FAR):
        reason = f"no item of this Archive has the identifier {text}"
        assert command(web, "show", text).error == reason
        assert command(web, "show", text, "--json").error == reason


# --- list ----------------------------------------------------------------------------------------


def test_list_prints_identifiers_state_date_and_title_of_each_item(web: Flask) -> None:
    header, *lines = (line.split("\t") for line in command(web, "list").lines)
    assert header == ["rep", "ibip", "state", "timestamp", "title"]
    for rep, ibip, state, timestamp, _ in lines:
        item = show(web, rep or ibip)
        assert (item["state"], item["timestamp"]) == (state, timestamp)
    rows = {(*line[:3], line[4]) for line in lines}
    assert (REPORT, REPORT_IBIP, "Original", "A report") in rows
    assert (GONE, "", "Deleted", "new.txt") in rows
    assert ("", ONLY_IBIP, "Original", "new.txt") in rows
    assert (EMPTY, "", "Original", EMPTY) in rows
    assert (NEW, "", "Original", " ".join(HOSTILE.split())) in rows
    assert SERVICE not in {row[0] for row in rows}


@pytest.fixture
def five(app: Flask, monkeypatch: pytest.MonkeyPatch) -> Flask:
    """An app with five items that differ in state, titles and creators."""
    monkeypatch.setattr(read, "EXPORT_BATCH", 2)
    chico = {"value": "Chico", "lang": "pt-BR"}
    descriptions: list[dict[str, Any]] = [
        {"title": ["Relatório 100%", "Report"], "subject": ["subject"]},
        {"title": [{"value": "O relatório", "lang": "pt-BR"}]},
        {"title": ["Relatório"], "creator": [chico, "Buarque, Ana"]},
        {"creator": ["Silva, Chico"]},
    ]
    records: list[dict[str, Any]] = [
        {"rep": f"a.br/x/2010/08.25.12.0{number}", "metadata": {"dc": description}}
        for number, description in enumerate(descriptions)
    ]
    records[3]["aliases"] = ["aBZc/7"]
    gone = {"state": "Deleted", "timestamp": "2012-01-01T00:00:00Z"}
    import_records(archive_of(app), [*records, {"rep": "a.br/x/2011/01.01.00.00", **gone}])
    return app


@pytest.mark.postgresql
def test_list_selects_by_state_and_text(five: Flask) -> None:
    for words, number in [
        (("--search", "relatório"), 3),
        (("--search", "abzc/7"), 1),
        (("--search", "subject"), 1),
        # no search in other elements, and no wildcards
        (("--search", "%"), 1),
        (("--state", "Original", "--search", "chico"), 2),
        (("--limit", "2", "--search", "relatório"), 2),
    ]:
        lines = command(five, "list", *words).lines[1:]
        assert len(lines) == number
        output = json.loads(command(five, "list", "--json", *words).data)
        assert [item["rep"] for item in output] == [line.split("\t")[0] for line in lines]


# --- url-list ------------------------------------------------------------------------------------


def test_url_list_prints_what_the_service_answers(web_with: NewApp) -> None:
    apps = [web_with(IBI_FILTER_URL_LIST=filtered) for filtered in (True, False)]
    for text, options in [
        (REPORT, {}),
        (REPORT, {"filepath": "日本語.txt"}),
        (OLD, {"verbs": "GetLastEdition GetMetadata(oai_dc)"}),
        (CLOSED, {"ip": OUTSIDE}),
        (NOBODY, {}),
    ]:
        for app in apps:
            words = [word for name, value in options.items() for word in (f"--{name}", value)]
            outcome = command(app, "url-list", text, *words)
            printed = outcome.out
            message = f"no item of this Archive has the identifier {text}: the answer is empty\n"
            assert (outcome.status, outcome.err) == (0, "" if printed else message)
            answer = ask_service(
                app,
                ("servicesubject", "urlRequest"),
                ("clientinformation.ipaddress", options.get("ip", "127.0.0.1")),
                ("parsedibiurl.ibi", text),
                ("parsedibiurl.filepath", options.get("filepath", "")),
                ("parsedibiurl.verblist", options.get("verbs", "")),
            )
            assert answer.status == 200
            answered = answer.text.replace("\r\n", "\n")
            assert without_key(printed.encode()) == without_key(
                (answered and answered + "\n").encode()
            )


def test_url_list_prints_the_same_pairs_as_json(web: Flask) -> None:
    output = json.loads(command(web, "url-list", REPORT, "--json").data)
    names = [line.split(" ", 1)[0] for line in command(web, "url-list", REPORT).lines]
    assert [pair["name"] for pair in output] == names
    pairs = {pair["name"]: pair["words"] for pair in output}
    assert pairs["state"] == ["Original"]
    assert pairs["ibi"] == ["rep", REPORT, "ibip", REPORT_IBIP]
    assert pairs["ibi.platformsoftware"] == []
    unknown = command(web, "url-list", NOBODY, "--json")
    assert (unknown.status, json.loads(unknown.out)) == (0, [])
    assert unknown.err.endswith(f"has the identifier {NOBODY}: the answer is empty\n")


# --- persistent URLs: every command that accepts an IBI accepts one ------------------------------


def test_the_ibi_of_a_persistent_url_is_used(web: Flask) -> None:
    for text in [
        f"http://urlib.net/{REPORT}",
        f"https://resolver.example.org:8443/{REPORT.upper()}",
        f"HTTP://LOCALHOST/{REPORT}/",
        f"http://urlib.net/{REPORT_IBIP.lower()}#page=2",
    ]:
        for name in ("show", "url-list", "decode", "stats"):
            assert command(web, name, text).status == 0
        assert command(web, "show", text).lines[0] == f"rep {REPORT}"


def test_a_modifier_or_path_that_has_no_effect_is_refused(web: Flask) -> None:
    for rest in ("!", "!:(oai_dc)", "+(pt)", "/report.pdf", "?x=1"):
        said = command(web, "show", f"http://urlib.net/{REPORT_IBIP}{rest}").usage
        assert "has a modifier, a path or a query after the IBI; this command accepts only" in said
        assert said.endswith(f"accepts only {REPORT_IBIP}")
    # a URL without an IBI
    assert "is not a persistent URL" in command(web, "show", "http://urlib.net/report").error
    assert "is not a persistent URL" in command(web, "url-list", "https://urlib.net/").error


def test_url_list_reads_verbs_and_path_from_a_persistent_url(web: Flask) -> None:
    def names(*words: str) -> list[str]:
        pairs = json.loads(command(web, "url-list", "--json", *words).data)
        return [pair["name"] for pair in pairs]

    url = f"http://urlib.net/{OLD}!:(oai_dc)"
    assert names(url) == names(OLD, "--verbs", "GetLastEdition GetMetadata(oai_dc)")
    assert names(url) != names(OLD)
    path = "日本語.txt"
    assert names(f"http://urlib.net/{REPORT}/{path}") == names(REPORT, "--filepath", path)
    said = command(web, "url-list", url, "--verbs", "GetLastEdition").usage
    assert "already contains verbs or a path" in said


def test_every_parameter_that_is_an_ibi_has_the_type() -> None:
    """Find parameters by their metavar, so that the test includes new commands."""
    for group in (ibi, ibi_resolver):
        context = click.Context(group)
        for name in group.list_commands(context):
            command_ = group.get_command(context, name)
            assert command_ is not None
            for parameter in command_.params:
                shown = parameter.make_metavar(context)
                if "IBI" in shown and name != "url-list":
                    assert getattr(parameter.type, "func", None) is read_ibi, (name, shown)
