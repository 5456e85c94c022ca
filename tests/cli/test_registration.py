"""The commands of registration: what they print, where, and how they end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from email import message_from_bytes, policy
from typing import Any

import pytest
import responses
from flask import Flask
from support.archives import SERVICE, archive_of
from support.commands import command
from support.loopback import EXCLUDED, SUCCESSFUL, UNSUCCESSFUL, nobody
from support.smtp import post_office
from support.vectors import load

from flask_ibi_archive.archive.registration import registrar
from flask_ibi_archive.protocol.registration import is_key

NewApp = Callable[..., Flask]

KEY = "1234567890-9876543210"
RESOLVER = "http://urlib.net/J8LNKB5R7W/3FUQHC5"
SETTINGS = {
    "IBI_REGISTRATION_KEY": KEY,
    "IBI_ARCHIVE_ADMIN_EMAIL": "banon@dpi.inpe.br",
}
EXAMPLE = load("messages.json")["email"]
memory = pytest.mark.parametrize("uri", ["sqlite://"])


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what may pass by itself be tried once only: the next try is later than any deadline."""
    monkeypatch.setattr(registrar, "backoff", lambda chance: iter([10**6]))


@pytest.fixture
def ready(new_app: NewApp) -> Flask:
    """An Archive that can be registered."""
    app = new_app(**SETTINGS)
    archive_of(app).init()
    return app


@pytest.fixture
def resolver() -> Iterator[responses.RequestsMock]:
    """A resolver that includes every Archive, unless told otherwise."""
    with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
        mock.get(RESOLVER, body=SUCCESSFUL)
        mock.get(f"http://mtc-m16c.sid.inpe.br/{SERVICE}", body="confirmation yes")
        yield mock


def test_register_and_unregister_print_the_status_and_nothing_else(
    ready: Flask, resolver: responses.RequestsMock
) -> None:
    assert command(ready, "register-archive").data == f"{SUCCESSFUL}\n"
    assert "servicesubject=inclusionRequest&" in str(resolver.calls[0].request.url)
    resolver.replace(responses.GET, RESOLVER, body=EXCLUDED)
    assert command(ready, "unregister-archive").data == f"{EXCLUDED}\n"
    assert "servicesubject=exclusionRequest&" in str(resolver.calls[1].request.url)
    resolver.replace(responses.GET, RESOLVER, body=SUCCESSFUL)
    assert command(ready, "register-archive").data == f"{SUCCESSFUL}\n"


@memory
def test_an_inclusion_that_is_not_confirmed_ends_with_3(
    ready: Flask, resolver: responses.RequestsMock
) -> None:
    resolver.replace(responses.GET, RESOLVER, body=UNSUCCESSFUL)
    outcome = command(ready, "register-archive")
    assert (outcome.status, outcome.out) == (3, f"{UNSUCCESSFUL}\n")
    assert outcome.err.startswith("Warning: the Archive is included; the resolver got no confirm")
    assert outcome.err.count("\n") == 1


@memory
@pytest.mark.parametrize("name", ["register-archive", "unregister-archive"])
@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [
        ({"status": 403, "body": "alert {unknown key}"}, 4, "refuses: unknown key; see that IBI_"),
        ({"body": ""}, 5, "answers nothing; it may not know the Archive"),
        ({"body": "<html>"}, 5, "answers an HTML page instead of a status; see that IBI_"),
        ({"status": 302, "headers": {"Location": "https://x/"}}, 5, "redirects to https://x/"),
        ({"status": 404}, 5, "answers with status 404; see that IBI_RESOLVER_URL"),
        ({"status": 500}, 5, "answers with status 500; try again later"),
    ],
)
def test_what_is_no_status_is_one_line_and_an_exit_status_of_its_own(
    ready: Flask,
    resolver: responses.RequestsMock,
    name: str,
    answer: dict[str, Any],
    status: int,
    said: str,
) -> None:
    resolver.replace(responses.GET, RESOLVER, **answer)
    outcome = command(ready, name)
    assert (outcome.status, outcome.out) == (status, "")
    [line] = outcome.err.splitlines()
    assert line.startswith(f"Error: the resolver {RESOLVER} {said}")
    outcome = command(ready, name, "--json")
    told = json.loads(outcome.out)
    assert outcome.status == status
    assert (told["status.archive"], f"Error: {told['error']}") == (None, line)


@memory
def test_a_resolver_that_is_not_there_ends_with_5(new_app: NewApp) -> None:
    with nobody() as address:
        app = new_app(**SETTINGS, IBI_RESOLVER_URL=f"http://{address}")
        archive_of(app).init()
        outcome = command(app, "register-archive")
    assert (outcome.status, outcome.out) == (5, "")
    assert "can't be reached (Connection refused); see that IBI_RESOLVER_URL" in outcome.err


@memory
def test_register_gives_the_same_as_json(ready: Flask, resolver: responses.RequestsMock) -> None:
    assert json.loads(command(ready, "register-archive", "--json").data) == {
        "service": SERVICE,
        "resolver": RESOLVER,
        "status.archive": "included",
        "status.confirmation": "successful",
        "error": None,
    }


@pytest.mark.parametrize("name", ["register-archive", "unregister-archive"])
@pytest.mark.parametrize(
    "key", ["IBI_REGISTRATION_KEY", "IBI_ARCHIVE_IP", "IBI_ARCHIVE_ADMIN_EMAIL"]
)
@memory
def test_a_missing_setting_is_an_error_that_names_it(new_app: NewApp, name: str, key: str) -> None:
    app = new_app(**{**SETTINGS, key: None})
    archive_of(app).init()
    with responses.RequestsMock():
        assert command(app, name).error.startswith(f"{key} is not set; it should be ")


@pytest.mark.no_tables
@memory
def test_before_init_the_error_says_to_run_it(new_app: NewApp) -> None:
    app = new_app(**SETTINGS)
    for name in ("register-archive", "unregister-archive", "registration-email"):
        assert command(app, name).error.endswith("run: flask ibi init")


def test_a_copy_of_the_database_is_refused_until_it_has_moved(
    new_app: NewApp, ready: Flask, resolver: responses.RequestsMock
) -> None:
    command(ready, "register-archive")
    clone = new_app(**SETTINGS, IBI_ARCHIVE_ADDRESS="staging.sid.inpe.br")
    resolver.get(f"http://staging.sid.inpe.br/{SERVICE}", body="confirmation yes")
    for name in ("register-archive", "unregister-archive"):
        assert command(clone, name).error == (
            "IBI_ARCHIVE_ADDRESS is staging.sid.inpe.br, but the Archive is registered at "
            "mtc-m16c.sid.inpe.br; if the Archive has moved, use --moved; if this is a copy of its "
            "database, do not register it"
        )
    outcome = command(clone, "check")
    assert outcome.status == 1
    assert "FAIL registration: included since " in outcome.out
    assert command(clone, "register-archive", "--moved").data == f"{SUCCESSFUL}\n"
    assert command(clone, "check").status == 0


# --- check and list ------------------------------------------------------------------------------


def standing(app: Flask) -> tuple[int, str]:
    """Return the exit status of check, and its line about the registration."""
    outcome = command(app, "check")
    [line] = [line for line in outcome.out.splitlines() if line[5:].startswith("registration: ")]
    return outcome.status, line


def test_check_and_list_show_how_the_archive_stands(
    ready: Flask, resolver: responses.RequestsMock
) -> None:
    def listed() -> list[str]:
        return str(command(ready, "list", "--archives").data).removesuffix("\n").split("\t")

    assert standing(ready)[0] == 0
    assert standing(ready)[1].startswith("ok   registration: not registered yet; ")
    assert listed() == [SERVICE, "mtc-m16c.sid.inpe.br", "not registered", "", ""]
    assert command(ready, "list").data == ""
    command(ready, "register-archive")
    assert standing(ready)[0] == 0
    assert standing(ready)[1].endswith("Z, and confirmed")
    assert command(ready, "list").data == ""
    assert listed()[2] == "included"
    assert listed()[3].endswith("Z")
    resolver.replace(responses.GET, RESOLVER, body="alert {unknown key}", status=403)
    command(ready, "unregister-archive")
    status, line = standing(ready)
    assert status == 1
    assert line.startswith("FAIL registration: included since ")
    assert f": the resolver {RESOLVER} refuses: unknown key; " in line
    assert listed()[4].startswith(f"the resolver {RESOLVER} refuses: unknown key; ")
    outcome = command(ready, "list")
    assert (outcome.status, outcome.out) == (0, "")
    assert outcome.err.startswith("registration: included since ")
    resolver.replace(responses.GET, RESOLVER, body=EXCLUDED)
    command(ready, "unregister-archive")
    assert standing(ready)[0] == 0
    assert standing(ready)[1].startswith("ok   registration: excluded since ")
    [told] = json.loads(command(ready, "list", "--archives", "--json").data)
    assert (told["service"], told["state"], told["resolver"]) == (SERVICE, "excluded", RESOLVER)
    assert told["excluded_at"] == told["since"]
    assert (told["included_at"], told["error"], told["error_at"]) == (None, None, None)
    assert told["registered_at"] is not None


def test_list_shows_every_archive_of_the_database(
    new_app: NewApp, ready: Flask, resolver: responses.RequestsMock
) -> None:
    other = "sid.inpe.br/mtc-m99/2008/03.17.15.17"
    archive_of(new_app(**SETTINGS, IBI_ARCHIVE_SERVICE_IBI=other)).init()
    command(ready, "register-archive")
    for app in (ready, new_app(IBI_ARCHIVE_SERVICE_IBI=None)):
        lines = [line.split("\t") for line in command(app, "list", "--archives").lines]
        assert [(line[0], line[2]) for line in lines] == [
            (SERVICE, "included"),
            (other, "not registered"),
        ]


# --- key and e-mail ------------------------------------------------------------------------------


def test_generate_key_prints_a_new_key_without_any_app() -> None:
    def no_app() -> Flask:
        raise AssertionError("a key needs no app")

    keys = {command(no_app, "generate-key").data for _ in range(5)}
    assert len(keys) == 5
    assert all(is_key(key.removesuffix("\n")) for key in keys)
    assert "IBI_REGISTRATION_KEY" in command(no_app, "generate-key", "--help").data


@pytest.fixture
def example(new_app: NewApp) -> Callable[..., Flask]:
    """Makes the Archive of the e-mail of the document."""

    def make(**config: Any) -> Flask:
        app = new_app(
            **{
                **SETTINGS,
                "IBI_ARCHIVE_SERVICE_IBI": EXAMPLE["archiveserviceibi"],
                "IBI_REGISTRATION_KEY": EXAMPLE["registrationkey"],
                **config,
            }
        )
        archive_of(app).init()
        return app

    return make


@memory
def test_the_email_is_printed_byte_for_byte(example: Callable[..., Flask]) -> None:
    text = f"Subject: {EXAMPLE['subject']}\n\n{EXAMPLE['body']}\n"
    printed = command(example(), "registration-email")
    assert printed.data == text
    assert printed.raw == text.encode()
    there = example(IBI_RESOLVER_EMAIL="urlib@example.org")
    assert command(there, "registration-email").data == f"To: urlib@example.org\n{text}"
    other = command(there, "registration-email", "--to", "other@example.org")
    assert other.data == f"To: other@example.org\n{text}"


@memory
@pytest.mark.parametrize(
    ("config", "words", "receiver"),
    [
        ({"IBI_RESOLVER_EMAIL": "urlib@example.org"}, [], "urlib@example.org"),
        ({"IBI_RESOLVER_EMAIL": "urlib@example.org"}, ["--to", "a@b.org"], "a@b.org"),
        ({}, ["--to", "a@b.org"], "a@b.org"),
    ],
)
def test_the_email_is_sent_and_nothing_is_printed(
    example: Callable[..., Flask], config: dict[str, str], words: list[str], receiver: str
) -> None:
    with post_office() as post:
        app = example(**config, MAIL_SERVER=post.address[0], MAIL_PORT=post.address[1])
        assert command(app, "registration-email", "--send", *words).data == ""
    sender, receivers, data = post.taken.get()
    assert (sender, receivers) == ("banon@dpi.inpe.br", [receiver])
    came = message_from_bytes(data, policy=policy.default)
    assert came["Subject"] == EXAMPLE["subject"]
    assert came.get_content().replace("\r\n", "\n") == EXAMPLE["body"] + "\n"


@memory
def test_what_keeps_the_email_from_being_sent_is_one_line(example: Callable[..., Flask]) -> None:
    send = ("registration-email", "--send")
    assert command(example(), *send).error.startswith("IBI_RESOLVER_EMAIL is not set; ")
    to = (*send, "--to", "a@b.org")
    assert command(example(), *to).error.startswith("MAIL_SERVER is not set; it should be ")
    with nobody() as address:
        host, _, port = address.partition(":")
        said = command(example(MAIL_SERVER=host, MAIL_PORT=port), *to).error
    assert said.startswith(f"the mail server {address} can't be reached (Connection refused)")
    assert EXAMPLE["registrationkey"] not in said
    without = example(IBI_REGISTRATION_KEY=None)
    assert command(without, "registration-email").error.startswith("IBI_REGISTRATION_KEY is not")
    assert "'nobody' is not an e-mail address" in command(example(), *send, "--to", "nobody").usage
