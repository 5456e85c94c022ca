"""Help: each command tells what it does and how it is called."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
from flask import Flask
from support.commands import command

from flask_ibi_archive.cli import ibi

CONTEXT = click.Context(ibi, info_name="ibi")
NAMES = ibi.list_commands(CONTEXT)
#: What reads or reports.
REPORTING = (
    "check", "decode", "reserve", "show", "list", "url-list", "backup", "restore", "verify", "stats",
    "purge", "check-links", "register-archive", "unregister-archive",
)  # fmt: skip


def command_of(name: str) -> click.Command:
    found = ibi.get_command(CONTEXT, name)
    assert found is not None
    return found


def examples_of(name: str) -> list[list[str]]:
    """Give the words behind ``flask ... ibi`` in the examples of a command."""
    text = (command_of(name).help or "").partition("Example:")[2].replace("\\\n", " ")
    return [shlex.split(line)[1:] for line in text.splitlines() if line.strip()]


def no_app() -> Flask:
    raise AssertionError("help needs no app")


def test_the_group_lists_the_commands_and_shows_an_example() -> None:
    text = command(no_app, "--help").data
    listed = re.findall(r"^  ([a-z-]+) +\S", text.partition("Commands:")[2], re.MULTILINE)
    assert listed == NAMES
    assert "flask --app example_app ibi init" in text


@pytest.mark.parametrize("name", NAMES)
def test_help_of_each_command_shows_an_example_of_it(name: str) -> None:
    text = command(no_app, name, "--help").data
    assert text.startswith("Usage: ")
    assert re.search(rf"Example:\n +flask .*ibi {name}\b", text)


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_are_calls_that_the_command_takes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for file in ("report.pdf", "data.csv"):
        (tmp_path / file).touch()
    assert examples_of(name)
    for words in examples_of(name):
        assert words[:2] == ["--app", "example_app"] or words[0] == "ibi"
        options = words[words.index("ibi") + 1 :]
        assert options[0] == name
        with command_of(name).make_context(name, options[1:], parent=CONTEXT):
            pass


@pytest.mark.parametrize("name", NAMES)
def test_commands_that_read_or_report_and_only_they_have_json(name: str) -> None:
    options = [option for parameter in command_of(name).params for option in parameter.opts]
    assert ("--json" in options) == (name in REPORTING)


def test_an_unknown_command_is_a_wrong_call() -> None:
    assert command(no_app, "unmint").usage.startswith("No such command 'unmint'")


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_option_is_a_wrong_call(name: str) -> None:
    assert command(no_app, name, "--unheard-of").usage.startswith("No such option")


@pytest.mark.parametrize(
    "name", ["decode", "show", "url-list", "add", "edit", "copy", "delete", "release", "import"]
)
def test_a_missing_argument_is_a_wrong_call(name: str) -> None:
    assert command(no_app, name).usage.startswith("Missing argument")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("mint", "-n", "0"), "0 is not in the range"),
        (("mint", "-n", "three"), "'three' is not a valid integer"),
        (("import", "items.jsonl", "--on-conflict", "merge"), "'merge' is not one of"),
        (("list", "everything"), "unexpected extra argument"),
    ],
)
def test_a_wrong_value_is_a_wrong_call(words: tuple[str, ...], reason: str) -> None:
    assert reason in command(no_app, *words).usage
