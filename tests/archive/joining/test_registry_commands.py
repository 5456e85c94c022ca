"""The commands ``flask ibi registry``, against a real resolver on loopback."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from flask import Flask
from support import web
from support.cases import for_each
from support.commands import Outcome, command
from support.loopback import nobody, says, serving
from support.registry_calls import registry_server

NewApp = Callable[..., Flask]

COL = "http://mtc-m16c.sid.inpe.br/col"
#: Two Archives as actors of the registry. The shelf is in both of them.
HERMES, MD = "dpi.inpe.br/banon/2001/01.11.16.21", "sid.inpe.br/bibdigital@80/2006/04.07.15.50"
SETTINGS = {
    HERMES: {
        "IBI_ARCHIVE_ADDRESS": "hermes.dpi.inpe.br:8080",
        "IBI_ARCHIVE_IP": "150.163.2.14",
        "IBI_ARCHIVE_ADMIN_EMAIL": "banon@dpi.inpe.br",
    },
    MD: {
        "IBI_ARCHIVE_ADDRESS": "md-m09.sid.inpe.br",
        "IBI_ARCHIVE_IP": "150.163.34.243",
        "IBI_ARCHIVE_ADMIN_EMAIL": "md@sid.inpe.br",
    },
}
PASSWORD, NEW_PASSWORD = "12xY3z ção", "a2xY3z"
#: The words and standard input that contain the password.
SECRET = ("--password-file", "-")


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of an empty registry."""
    monkeypatch.setenv("NO_PROXY", "*")
    with registry_server(tmp_path) as url:
        yield url


class Actor:
    """An Archive that uses a registry."""

    def __init__(self, kept: NewApp, url: str, actor_id: str) -> None:
        config = {**SETTINGS[actor_id], "IBI_REGISTRY_URL": url}
        self.app = kept(**config, IBI_REGISTRY_ACTOR_ID=actor_id)
        self.actor_id = actor_id

    def run(self, *words: object, password: str = PASSWORD) -> Outcome:
        """Run a command with a password in standard input."""
        stdin = f"{password}\n".encode()
        return command(self.app, "registry", *words, *SECRET, stdin=stdin)

    def confirm(self, *words: object) -> str:
        """Run a command that only writes a confirmation, and return the confirmation."""
        outcome = self.run(*words)
        assert (outcome.status, outcome.out) == (0, "")
        return outcome.err

    def join(self) -> Actor:
        """Register the actor."""
        outcome = self.run("register-actor", "--actor-id", self.actor_id)
        assert (outcome.status, outcome.out) == (0, f"{self.actor_id}\n")
        return self


@pytest.fixture
def hermes(kept: NewApp, registry: str) -> Actor:
    """A registered actor."""
    return Actor(kept, registry, HERMES).join()


def test_a_session_with_all_commands(kept: NewApp, hermes: Actor, registry: str) -> None:
    md = Actor(kept, registry, MD).join()
    assert hermes.run("register", web.REPORT, web.REPORT_IBIP).lines == [
        web.REPORT,
        web.REPORT_IBIP,
    ]
    md_error = md.run("register", web.REPORT).error
    assert md_error.endswith("so other actors have copies; a copy needs originalDocument=no")
    assert md.run("register", web.REPORT, "--no-original").data == f"{web.REPORT}\n"
    here, there = (
        f"http://{address}/col/{web.REPORT}"
        for address in ("hermes.dpi.inpe.br:8080", "md-m09.sid.inpe.br")
    )
    time = "2009-07-21T13:23:45Z"

    def urls(page: str) -> list[str]:
        return [
            f"documentURL {page}/doc/report.pdf documentLastUpdate {time}",
            f"metadataURL {page}/metadata metadataLastUpdate {time}",
            f"metadataURL {page}/metadata?choice=oai_dc metadataLastUpdate {time} "
            "metadataFormat oai_dc",
        ]

    assert md.run("display", f"http://urlib.net/{web.REPORT}").lines == [
        f"documentID {web.REPORT}",
        *(
            f"\t{line}"
            for line in (
                f"actorID {HERMES}",
                "originalDocument yes",
                *urls(here),
                f"actorID {MD}",
                *urls(there),
            )
        ),
    ]
    refused = hermes.run("delete", web.REPORT).error
    assert refused.endswith(f"these actors have copies: {MD}")
    moved = hermes.confirm("change-actor", web.REPORT, "--to", MD)
    assert moved == f"the document {web.REPORT} is now registered by {MD}\n"
    [first, second] = json.loads(hermes.run("display", web.REPORT, "--json").data)["registrations"]
    assert (first["actor_id"], first["is_copy"], first["is_original"]) == (MD, False, True)
    assert (second["actor_id"], second["is_copy"], second["is_original"]) == (HERMES, True, False)
    assert first["location"]["url"] == f"{there}/doc/report.pdf"
    assert first["location"]["updated_at"] == time
    assert hermes.confirm("delete", web.REPORT).startswith(f"the registration of {web.REPORT} was")
    assert md.confirm("delete", web.REPORT)
    assert hermes.confirm("change-email", "banon@iconet.com.br") == (
        "the e-mail address was changed\n"
    )
    stdin = f"{PASSWORD}\n{NEW_PASSWORD}\n".encode()
    words = ("registry", "change-password", *SECRET, "--new-password-file", "-")
    changed = command(hermes.app, *words, stdin=stdin)
    assert (changed.status, changed.err) == (0, "the password was changed\n")
    assert hermes.run("display", web.REPORT_IBIP, password=NEW_PASSWORD).lines[1:3] == [
        f"\tactorID {HERMES}",
        "\toriginalDocument yes",
    ]
    assert hermes.run("display", web.REPORT_IBIP).status == 1


def test_register_actor_takes_the_address_of_the_archive(hermes: Actor, registry: str) -> None:
    for words, message in (
        ((), "actorID dpi.inpe.br/banon/2001/01.11.16.21 is already in use"),
        (("--host", "md-m09.sid.inpe.br"), "ip 150.163.2.14 is not an IP address of md-m09.sid"),
        (("--ip", "150.163.2.15"), "ip 150.163.2.15 is not an IP address of hermes.dpi.inpe.br"),
    ):
        outcome = hermes.run("register-actor", "--actor-id", HERMES, *words)
        assert message in outcome.error
    minted = hermes.run("register-actor", "--email", "x@y.br", "--port", "80")
    assert minted.out.startswith("example.org/registry.2008/")
    assert minted.err == (
        f"the Archive is registered; now set IBI_REGISTRY_ACTOR_ID = {minted.out.strip()}\n"
    )


def test_register_actor_needs_the_settings_or_the_options(kept: NewApp) -> None:
    url = "http://resolver.invalid/ibi/registry"
    cases = (
        ({"IBI_ARCHIVE_ADDRESS": "localhost:5000"}, "IBI_ARCHIVE_ADDRESS is 'localhost:5000'; it"),
        ({"IBI_ARCHIVE_ADDRESS": "150.163.2.14"}, "IBI_ARCHIVE_ADDRESS is '150.163.2.14'; it sho"),
        ({"IBI_ARCHIVE_IP": None}, "IBI_ARCHIVE_IP is not set; it should be the Archive's IPv4"),
        ({"IBI_ARCHIVE_ADMIN_EMAIL": None}, "IBI_ARCHIVE_ADMIN_EMAIL is not set; it should be "),
        ({"IBI_REGISTRY_URL": None}, "IBI_REGISTRY_URL is not set; it should be the address of"),
    )
    for settings, message in cases:
        app = kept(**{**SETTINGS[HERMES], "IBI_REGISTRY_URL": url, **settings})
        outcome = command(app, "registry", "register-actor", *SECRET, stdin=b"x\n")
        assert outcome.error.startswith(message)
    app = kept(
        **{**SETTINGS[HERMES], "IBI_ARCHIVE_ADDRESS": "localhost:5000"}, IBI_REGISTRY_URL=url
    )
    error = command(app, "registry", "register-actor", *SECRET, stdin=b"x\n").error
    assert error.endswith("--host replaces this setting")
    app = kept(**SETTINGS[HERMES], IBI_REGISTRY_URL=url)
    for words, usage in (
        (("register-actor", "--ip", "no"), "'no' is not an IPv4 or IPv6 address"),
        (("register-actor", "--host", "a b"), "'a b' is not host"),
        (("register-actor", "--email", "x"), "'x' is not an e-mail address"),
        (("register-actor", "--port", "0"), "0 is not in the range"),
        (("change-email", "x"), "'x' is not an e-mail address"),
    ):
        assert usage in command(app, "registry", *words).usage


def test_without_the_actor_id_the_other_commands_say_how_to_get_it(kept: NewApp) -> None:
    app = kept(**SETTINGS[HERMES], IBI_REGISTRY_URL="http://resolver.invalid/ibi/registry")
    for words in (
        ("change-password",),
        ("change-email", "a@b.br"),
        ("register", web.REPORT),
        ("change-actor", web.REPORT, "--to", MD),
        ("delete", web.REPORT),
        ("display", web.REPORT),
    ):
        error = command(app, "registry", *words).error
        assert error.startswith("IBI_REGISTRY_ACTOR_ID is not set; it should be the actorID")


# --- what register sends


def test_a_dry_run_shows_what_would_be_sent_and_needs_no_password(kept: NewApp) -> None:
    with nobody() as address:
        actor = Actor(kept, f"http://{address}", HERMES)
        outcome = command(actor.app, "registry", "register", web.OLD, web.CLOSED, "--dry-run")
    page = "http://hermes.dpi.inpe.br:8080/col"
    lines = [line for line in outcome.lines if "LastUpdate" not in line]
    assert lines == [
        "verb RegisterDocument",
        f"actorID {HERMES}",
        f"documentID {web.OLD}",
        "originalDocument yes",
        f"documentURL {page}/{web.OLD}/doc/old.txt",
        f"nextEditionURL http://urlib.net/{web.NEW}",
        "verb RegisterDocument",
        f"actorID {HERMES}",
        f"documentID {web.CLOSED}",
        "originalDocument yes",
        f"metadataURL {page}/{web.CLOSED}/metadata",
        f"metadataURL {page}/{web.CLOSED}/metadata?choice=oai_dc",
        "metadataFormat oai_dc",
    ]


@for_each(
    ("ibi", "message"),
    [
        (web.GONE, "has the state Deleted: it can't be registered"),
        (web.HIDDEN, "can't be registered: it has no URL for all readers"),
        (web.NOBODY, f"no item of this Archive has the identifier {web.NOBODY}"),
        ("nonsense", "'nonsense' is not an IBI"),
    ],
)
def test_if_an_item_cannot_be_registered_nothing_is_sent(
    kept: NewApp, ibi: str, message: str
) -> None:
    resolver = says("")
    with serving(resolver) as address:
        actor = Actor(kept, f"http://{address}", HERMES)
        assert message in actor.run("register", web.REPORT, ibi).error
    assert resolver.asked.empty()


# --- errors of the resolver


def test_a_wrong_password_and_an_unknown_document_are_the_same_error(hermes: Actor) -> None:
    wrong = hermes.run("display", web.REPORT, password="hush").error
    assert wrong == hermes.run("display", web.REPORT).error
    assert wrong.endswith("the actorID, the password or the documentID is not right")


def test_too_many_wrong_passwords_are_an_error_with_the_time_to_wait(hermes: Actor) -> None:
    errors = [hermes.run("display", web.REPORT, password="hush").error for _ in range(11)]
    assert "too many wrong passwords came from this address" in errors[-1]
    assert "; try again in " in errors[-1]


def test_every_command_reports_a_resolver_without_a_registry_in_one_line(kept: NewApp) -> None:
    with serving(says("<!doctype html>", 404)) as address:
        actor = Actor(kept, f"http://{address}/ibi/registry", HERMES)
        for words in COMMANDS:
            error = actor.run(*words, password=f"{PASSWORD}\n{NEW_PASSWORD}").error
            assert error.startswith(f"the resolver http://{address}/ibi/registry answers with sta")


#: Each command with its arguments, without passwords.
COMMANDS = (
    ("register-actor",),
    ("change-password", "--new-password-file", "-"),
    ("change-email", "a@b.br"),
    ("register", web.REPORT),
    ("change-actor", web.REPORT, "--to", MD),
    ("delete", web.REPORT),
    ("display", web.REPORT),
)


# --- passwords


def test_no_output_and_no_log_contains_a_password(
    hermes: Actor, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for words in COMMANDS:
        for password in ("hush", PASSWORD):
            outcome = hermes.run(*words, password=f"{password}\n{NEW_PASSWORD}")
            shown = f"{outcome.out}{outcome.err}{caplog.text}"
            for secret in ("hush", PASSWORD, NEW_PASSWORD, "12xY3z"):
                assert secret not in shown, words


def test_the_first_line_of_a_file_is_the_password(hermes: Actor, tmp_path: Path) -> None:
    path = tmp_path / "password"
    for content in (PASSWORD, f"{PASSWORD}\n", f"{PASSWORD}\r\nnotes\n"):
        path.write_bytes(content.encode())
        words = ("registry", "register", web.REPORT, "--password-file", path)
        assert command(hermes.app, *words).data == f"{web.REPORT}\n"
    cases: tuple[tuple[bytes, str], ...] = (
        (b"", f"the first line of {path} is empty; it should be the password"),
        (b"\nhush\n", f"the first line of {path} is empty; it should be the password"),
        (b"hush\xff\n", f"the first line of {path} is not UTF-8 text"),
    )
    for data, message in cases:
        path.write_bytes(data)
        assert command(hermes.app, *words).error == message
    path.unlink()
    assert command(hermes.app, *words).error == f"{path} can't be read: No such file or directory"
    empty = command(hermes.app, "registry", "register", web.REPORT, *SECRET, stdin=b"")
    assert empty.error == "the first line of standard input is empty; it should be the password"
    words = ("registry", "register", web.REPORT, "--password-file", tmp_path)
    assert "is a directory" in command(hermes.app, *words).usage


def test_without_a_file_and_a_terminal_there_is_no_password(hermes: Actor) -> None:
    error = "there is no terminal for the password; use --password-file"
    assert command(hermes.app, "registry", "display", web.REPORT).error == error
    words = ("registry", "change-password", *SECRET)
    error = "there is no terminal for the password; use --new-password-file"
    assert command(hermes.app, *words, stdin=b"x\n").error == error


def test_a_terminal_asks_for_passwords_without_showing_them(
    hermes: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda stream: True)
    answers = f"{PASSWORD}\n{NEW_PASSWORD}\nother\n{NEW_PASSWORD}\n{NEW_PASSWORD}\n".encode()
    changed = command(hermes.app, "registry", "change-password", stdin=answers)
    assert (changed.status, changed.out) == (0, "")
    assert [line.strip() for line in changed.err.splitlines()] == [
        "Password:",
        "New password:",
        "Repeat for confirmation:",
        "Error: The two entered values do not match.",
        "New password:",
        "Repeat for confirmation:",
        "the password was changed",
    ]
    words = ("registry", "register", web.REPORT)
    asked = command(hermes.app, *words, stdin=f"{NEW_PASSWORD}\n".encode())
    assert (asked.status, asked.out) == (0, f"{web.REPORT}\n")
