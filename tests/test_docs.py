"""The documentation describes every command and setting, and CHANGES every migration."""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path

import click
import pytest
from docutils.core import publish_doctree
from flask import Flask
from support.archives import SERVICE
from support.commands import ROOT
from support.documentation import rows

import flask_ibi_archive
from flask_ibi_archive import IBIArchive
from flask_ibi_archive.archive.commands import SECTIONS, ibi
from flask_ibi_archive.core.records.record import FIELDS
from flask_ibi_archive.resolver import IBIResolver
from flask_ibi_archive.resolver.commands import ibi_resolver
from flask_ibi_archive.resolver.config import ResolverConfig
from flask_ibi_archive.server.config import PAGE_POLICY, ArchiveConfig, list_keys
from flask_ibi_archive.server.database.migrate import ARCHIVE, RESOLVER, migrations_path
from flask_ibi_archive.server.web.texts import COOKIE

README = (ROOT / "README.rst").read_text(encoding="utf-8")
DOCS = ROOT / "docs"
KEYS = list_keys(ArchiveConfig, ResolverConfig)
CHANGES = (ROOT / "CHANGES.rst").read_text(encoding="utf-8")


def page(name: str) -> str:
    """Return the text of a page of the documentation."""
    return (DOCS / name).read_text(encoding="utf-8")


#: Matches the name of a command, with the name of its group.
COMMAND = "(?:ibi-resolver )?(?:api-key |alias |offers |claims )?[a-z-]+"


def first_cells(text: str, heading: str) -> list[str]:
    """Return the first cell of each row of the tables in a text."""
    return [row[0] for row in rows(text, heading)]


def names_of(group: click.Group, prefix: str = "") -> Iterator[str]:
    """Yield the names of the commands of a group, and of the groups in this group."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if isinstance(found, click.Group):
            if found.invoke_without_command:
                yield prefix + name
            yield from names_of(found, f"{prefix}{name} ")
        else:
            yield prefix + name


def commands() -> list[str]:
    return [*names_of(ibi), *names_of(ibi_resolver, "ibi-resolver ")]


def test_the_page_of_versions_states_the_lowest_versions_that_are_tested() -> None:
    config = ConfigParser(interpolation=None)
    config.read(ROOT / "setup.cfg")
    extras = config["options.extras_require"]
    needed, *others = (
        dict(re.findall(r"^([\w-]+)(?:\[\w+\])?>=([\d.]+)$", text.lower(), re.MULTILINE))
        for text in (config["options"]["install_requires"], *extras.values())
    )
    text = page("reference/versions.rst").partition("\nApplications\n")[0]
    stated = dict(re.findall(r"^([\w-]+) {2,}(\d[\d.]*)(?: |$)", text.lower(), re.MULTILINE))
    assert stated.items() >= needed.items()
    assert stated.items() <= dict(ChainMap(needed, *others)).items()


def test_the_page_of_hosts_states_the_versions_that_are_tested() -> None:
    pinned = {}
    for path in (ROOT / "tests/installed_hosts").glob("*_site/requirements.txt"):
        lines = re.findall(r"^([\w-]+)\S*==(\S+)$", path.read_text(), re.MULTILINE)
        pinned[path.parent.name.removesuffix("_site")] = ", ".join(map(" ".join, lines))
    assert {
        name.lower(): versions for name, versions in rows(page("hosts.rst"), "application")
    } == pinned


def test_the_reference_of_python_has_each_public_name() -> None:
    text = page("reference/python.rst")
    # all errors are on this page, from their module
    for name in {*flask_ibi_archive.__all__} - {"IBIError"}:
        assert re.search(rf"^\.\. auto\w+:: flask_ibi_archive\.{name}$", text, re.MULTILINE), name


def test_the_table_of_settings_has_each_setting_once() -> None:
    cells = first_cells(page("reference/settings.rst"), "key")
    keys = [key for cell in cells for key in re.findall(r"IBI_[A-Z_]+", cell)]
    assert len(keys) == len(set(keys))
    assert set(keys) == set(KEYS)


def test_the_settings_begin_with_the_eight_that_a_repository_needs() -> None:
    text = page("reference/settings.rst")
    sections = re.split(r"\n\n(.+)\n-+\n", text)
    assert len(first_cells(sections[0], "key")) == 8
    experts = first_cells(sections[sections.index("For experts") + 1], "key")
    assert len(experts) > len(KEYS) / 3
    assert len(list_keys(ArchiveConfig)) <= 38
    assert len(list_keys(ResolverConfig)) <= 19


def test_the_page_about_security_shows_the_policy_of_pages_and_their_cookie() -> None:
    text = page("security.rst")
    assert f"\n   {PAGE_POLICY}\n" in text
    assert f"``{COOKIE}``" in text


def test_the_table_of_the_import_format_has_each_field_once() -> None:
    cells = first_cells(page("reference/import-format.rst"), "field")
    assert sorted(cell.strip("`") for cell in cells) == sorted([*FIELDS, "counts"])


def test_the_tables_of_addresses_have_each_route(tmp_path: Path) -> None:
    app = Flask("app", instance_path=str(tmp_path))
    app.config |= {
        "SECRET_KEY": "a secret for tests",
        "SERVER_NAME": "resolver.example.org",
        "IBI_RESOLVER_SERVICE_IBI": SERVICE,
        "IBI_RESOLVER_REGISTRY": True,
        "IBI_IDENTIFICATION": True,
    }
    IBIArchive(app)
    IBIResolver(app)
    text = page("reference/addresses.rst")
    for rule in app.url_map.iter_rules():
        # fixed words are parts of a converter, such as <own_word('health'):word>
        address = re.sub(r"<\w+\('([^']+)'\):\w+>", r"\1", rule.rule)
        address = re.sub(r"<(?:\w+(?:\(\S+?\))?:)?(\w+)>", r"<\1>", address)
        if rule.endpoint.startswith("ibi_") and address not in ("/<ibi>", f"/{SERVICE}"):
            assert f"``{address}``" in text, address


def test_no_document_names_a_setting_that_does_not_exist() -> None:
    known = set(KEYS) | {"IBI_TEST_POSTGRESQL"}
    texts = [README, CHANGES]
    texts += [path.read_text(encoding="utf-8") for path in DOCS.rglob("*.rst")]
    texts += [
        path.read_text(encoding="utf-8") for path in (ROOT / "flask_ibi_archive").rglob("*.py")
    ]
    texts += [path.read_text(encoding="utf-8") for path in (ROOT / "example_app").glob("*.py")]
    for text in texts:
        assert set(re.findall(r"(?<![A-Z])IBI_[A-Z_]*[A-Z](?![A-Z_])", text)) <= known


def test_the_table_of_commands_has_each_command_once() -> None:
    cells = first_cells(page("reference/commands.rst"), "command")
    found = [name for cell in cells for name in re.findall(rf"``({COMMAND})", cell)]
    assert sorted(found) == sorted(commands())


def test_the_commands_are_on_the_page_as_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    titles = re.findall(r"^(.+)\n-+$", page("reference/commands.rst"), re.MULTILINE)
    assert titles == [*SECTIONS, "Commands of a resolver"]
    ibi.main(["--help"], standalone_mode=False)
    shown = re.findall(r"^  ([a-z][a-z-]+)  ", capsys.readouterr().out, re.MULTILINE)
    everyday = "init check add edit show list delete import export register-archive offer accept"
    assert shown[:12] == everyday.split()
    assert {"upgrade", "downgrade", "mint", "url-list", "decode"} == set(shown[-5:])


def test_the_changes_name_every_migration() -> None:
    for history in (ARCHIVE, RESOLVER):
        for path in (migrations_path(history) / "versions").glob("ibi_*.py"):
            [revision] = re.findall(r'^revision = "(.*)"', path.read_text(), re.MULTILINE)
            assert f"``{revision}``" in CHANGES


def test_files_that_the_documentation_names_are_there() -> None:
    texts = [README, *(path.read_text(encoding="utf-8") for path in DOCS.rglob("*.rst"))]
    for text in texts:
        # not the files in the sessions of pages
        for path in re.findall(
            r"(?<![\w./])(?:docs|example_app|tests|flask_ibi_archive)/[\w./-]*\w", text
        ):
            assert (ROOT / path).exists(), path


@pytest.mark.parametrize("name", ["README.rst", "CHANGES.rst", "CONTRIBUTING.rst"])
def test_the_documents_are_valid_restructured_text(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    # a warning is an exception
    settings = {"halt_level": 2, "_disable_config": True, "syntax_highlight": "none"}
    publish_doctree(text, settings_overrides=settings)
