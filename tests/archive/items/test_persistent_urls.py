"""Every command that accepts an IBI accepts a persistent URL as well."""

from __future__ import annotations

import json

import click
from flask import Flask
from support.cases import for_each
from support.commands import command
from support.web import OLD, REPORT, REPORT_IBIP

from flask_ibi_archive.archive.commands import ibi
from flask_ibi_archive.resolver.commands import ibi_resolver
from flask_ibi_archive.server.commands.group import read_ibi


@for_each(
    "text",
    [
        f"http://urlib.net/{REPORT}",
        f"https://resolver.example.org:8443/{REPORT.upper()}",
        f"HTTP://LOCALHOST/{REPORT}/",
        f"http://urlib.net/{REPORT_IBIP.lower()}#page=2",
    ],
)
def test_the_ibi_of_a_persistent_url_is_used(shelved: Flask, text: str) -> None:
    for name in ("show", "url-list", "decode", "stats"):
        assert command(shelved, name, text).status == 0
    assert command(shelved, "show", text).lines[0] == f"rep {REPORT}"


def test_a_modifier_or_path_that_has_no_effect_is_refused(shelved: Flask) -> None:
    for rest in ("!", "!:(oai_dc)", "+(pt)", "/report.pdf", "?x=1"):
        said = command(shelved, "show", f"http://urlib.net/{REPORT_IBIP}{rest}").usage
        assert "has a modifier, a path or a query after the IBI; this command accepts only" in said
        assert said.endswith(f"accepts only {REPORT_IBIP}")
    # a URL without an IBI
    assert "is not a persistent URL" in command(shelved, "show", "http://urlib.net/report").error
    assert "is not a persistent URL" in command(shelved, "url-list", "https://urlib.net/").error


def test_url_list_reads_verbs_and_path_from_a_persistent_url(shelved: Flask) -> None:
    def names(*words: str) -> list[str]:
        pairs = json.loads(command(shelved, "url-list", "--json", *words).data)
        return [pair["name"] for pair in pairs]

    url = f"http://urlib.net/{OLD}!:(oai_dc)"
    assert names(url) == names(OLD, "--verbs", "GetLastEdition GetMetadata(oai_dc)")
    assert names(url) != names(OLD)
    path = "日本語.txt"
    assert names(f"http://urlib.net/{REPORT}/{path}") == names(REPORT, "--filepath", path)
    said = command(shelved, "url-list", url, "--verbs", "GetLastEdition").usage
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
