"""Help: each command has a summary, a description and an example."""

from __future__ import annotations

import inspect
import re
import shlex
from importlib.metadata import version
from pathlib import Path

import click
import pytest
from flask import Flask
from support.commands import command

from flask_ibi_archive.archive.commands import ibi
from flask_ibi_archive.resolver.commands import ibi_resolver
from flask_ibi_archive.server.commands.group import IBIGroup

GROUPS: tuple[IBIGroup, ...] = (ibi, ibi_resolver)
#: Each group with the names of its commands.
NAMES = [(group, name) for group in GROUPS for name in group.list_commands(click.Context(group))]
IDS = [f"{group.package}:{group.name}" for group in GROUPS]


def app_of(group: IBIGroup) -> str:
    """Return the app in the examples of the commands of a group."""
    is_of_resolver = group.package.startswith("flask_ibi_archive.resolver")
    return "example_app:create_resolver" if is_of_resolver else "example_app"


def command_of(group: IBIGroup, name: str) -> click.Command:
    found = group.get_command(click.Context(group), name)
    assert found is not None
    return found


def examples_of(group: IBIGroup, name: str) -> list[list[str]]:
    """Return the words after ``flask`` in the examples of a command."""
    text = (command_of(group, name).help or "").partition("Example:")[2].replace("\\\n", " ")
    return [shlex.split(line)[1:] for line in text.splitlines() if line.strip()]


def no_app() -> Flask:
    raise AssertionError("help needs no app")


@pytest.mark.parametrize("group", GROUPS, ids=IDS)
def test_the_group_lists_the_commands_and_shows_an_example(group: IBIGroup) -> None:
    text = command(no_app, "--help", group=group).data
    listed = dict(re.findall(r"^  ([a-z-]+) +(\S.*)$", text.partition("--help ")[2], re.MULTILINE))
    names = [name for of, name in NAMES if of is group]
    assert list(listed) == names
    for name in names:
        assert inspect.cleandoc(command_of(group, name).help or "").startswith(
            f"{listed[name]}\n\n"
        )
    assert command(no_app, "--version", group=group).data == (
        f"flask_ibi_archive {version('flask_ibi_archive')}\n"
    )
    for title in group.sections:
        assert f"\n{title}:\n  " in text
    assert re.search(rf"Example:\n +flask --app {app_of(group)} .*{group.name} ", text)


def test_each_command_has_a_summary_and_accepts_the_examples_of_its_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for group, name in NAMES:
        summary, _, rest = inspect.cleandoc(command_of(group, name).help or "").partition("\n")
        assert re.fullmatch("[A-Z].{,58}[.]", summary), name
        assert rest.startswith("\n")
        text = command(no_app, name, "--help", group=group).data
        assert re.search(rf"Example:\n +flask .*{group.name} {name}\b", text), name
        assert examples_of(group, name)
        for words in examples_of(group, name):
            for word in words:
                if word.endswith((".pdf", ".csv")):
                    (tmp_path / word).touch()
            assert words[:2] == ["--app", app_of(group)] or words[0] == group.name
            options = words[words.index(str(group.name)) + 1 :]
            assert options[0] == name
            parent = click.Context(group, info_name=group.name)
            with command_of(group, name).make_context(name, options[1:], parent=parent):
                pass


@pytest.mark.parametrize(
    ("group", "word", "said"),
    [
        (ibi, "showw", "No such command 'showw'. Did you mean show?"),
        (ibi, "genrate-key", "No such command 'genrate-key'. Did you mean generate-key?"),
        (ibi_resolver, "listt", "No such command 'listt'. Did you mean list?"),
        (ibi, "quit", "No such command 'quit'."),
    ],
)
def test_an_unknown_command_is_an_error_with_similar_names(
    group: IBIGroup, word: str, said: str
) -> None:
    assert command(no_app, word, group=group).usage == said


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("mint", "-n", "0"), "0 is not in the range"),
        (("import", "items.jsonl", "--on-conflict", "merge"), "'merge' is not one of"),
        (("list", "everything"), "unexpected extra argument"),
        (("show",), "Missing argument"),
        (("show", "--unheard-of"), "No such option"),
    ],
)
def test_a_wrong_value_is_a_usage_error(words: tuple[str, ...], reason: str) -> None:
    assert reason in command(no_app, *words).usage
