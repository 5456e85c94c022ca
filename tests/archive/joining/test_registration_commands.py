"""The commands of registration: output, errors and exit status."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import responses
from flask import Flask
from support.archives import SERVICE
from support.commands import command
from support.loopback import EXCLUDED, SUCCESSFUL, UNSUCCESSFUL, nobody
from support.smtp import post_office
from support.vectors import load

from flask_ibi_archive.core.protocol.inclusion import is_key

from .conftest import RESOLVER, SETTINGS, NewApp

EXAMPLE = load("messages.json")["email"]


@pytest.fixture
def ready(new_archive: NewApp) -> Flask:
    return new_archive()


@pytest.fixture
def resolver() -> Iterator[responses.RequestsMock]:
    """A resolver that includes every Archive; tests replace its answer."""
    with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
        mock.get(RESOLVER, body=SUCCESSFUL)
        mock.get(f"http://mtc-m16c.sid.inpe.br/{SERVICE}", body="confirmation yes")
        mock.get("http://mtc-m16c.sid.inpe.br/ibi/statistics")
        yield mock


@pytest.mark.rule("R5-05")
def test_register_and_unregister_print_the_status_and_nothing_else(
    ready: Flask, resolver: responses.RequestsMock
) -> None:
    assert command(ready, "register-archive").data == f"{SUCCESSFUL}\n"
    assert "servicesubject=inclusionRequest&" in str(resolver.calls[0].request.url)
    resolver.replace(responses.GET, RESOLVER, body=EXCLUDED)
    assert command(ready, "unregister-archive").data == f"{EXCLUDED}\n"
    assert "servicesubject=exclusionRequest&" in str(resolver.calls[1].request.url)
    # an inclusion that is not confirmed ends with 3
    resolver.replace(responses.GET, RESOLVER, body=f"{UNSUCCESSFUL} clash {{a.br \x1b mints}}")
    outcome = command(ready, "register-archive")
    assert outcome.status == 3
    assert outcome.out.startswith(UNSUCCESSFUL)
    clash, unconfirmed = outcome.err.splitlines()
    assert clash.startswith("Warning: a.br mints; set IBI_MINT_PORT")
    assert unconfirmed.startswith("Warning: the Archive is included; the resolver got no confirm")


@pytest.mark.parametrize("name", ["register-archive", "unregister-archive"])
@pytest.mark.parametrize(
    ("answer", "status", "reason"),
    [
        ({"status": 403, "body": "alert {unknown key}"}, 4, "refuses the request: unknown key"),
        ({"body": ""}, 5, "sends an empty answer; the resolver may not know the Archive"),
        (None, 5, "can't be reached (Connection refused); check whether IBI_RESOLVER_URL"),
    ],
)
def test_an_answer_without_a_status_is_one_line_with_its_own_exit_status(
    new_archive: NewApp,
    resolver: responses.RequestsMock,
    name: str,
    answer: dict[str, object] | None,
    status: int,
    reason: str,
) -> None:
    with nobody() as address:
        url = RESOLVER if answer else f"http://{address}"
        if answer is None:
            resolver.add_passthru(url)
        else:
            resolver.replace(responses.GET, url, **answer)
        app = new_archive(IBI_RESOLVER_URL=url)
        outcome = command(app, name)
    assert (outcome.status, outcome.out) == (status, "")
    [line] = outcome.err.splitlines()
    assert line.startswith(f"Error: the resolver {url} {reason}")


def test_a_copy_of_the_database_is_refused_without_the_option_moved(
    new_app: NewApp, ready: Flask, resolver: responses.RequestsMock
) -> None:
    command(ready, "register-archive")
    clone = new_app(**SETTINGS, IBI_ARCHIVE_ADDRESS="staging.sid.inpe.br")
    for name in ("register-archive", "unregister-archive"):
        assert command(clone, name).error.startswith("IBI_ARCHIVE_ADDRESS is staging.sid.inpe.br")
    assert "FAIL registration: included since " in command(clone, "check").out
    assert command(clone, "register-archive", "--moved").data == f"{SUCCESSFUL}\n"
    assert "ok   registration: included since " in command(clone, "check").out


# --- check ------------------------------------------------------------------------------


# --- key and e-mail ------------------------------------------------------------------------------


def test_generate_key_prints_a_new_key_without_any_app() -> None:
    def no_app() -> Flask:
        raise AssertionError("a key needs no app")

    keys = {command(no_app, "generate-key").data for _ in range(5)}
    assert len(keys) == 5
    assert all(is_key(key.removesuffix("\n")) for key in keys)
    assert "IBI_REGISTRATION_KEY" in command(no_app, "generate-key", "--help").data


@pytest.fixture
def example(new_archive: NewApp) -> Callable[..., Flask]:
    """Create an app with the Archive of the e-mail in [R] Example 5.1."""

    def make(**config: object) -> Flask:
        values = {
            "IBI_ARCHIVE_SERVICE_IBI": EXAMPLE["archiveserviceibi"],
            "IBI_REGISTRATION_KEY": EXAMPLE["registrationkey"],
        }
        return new_archive(**{**values, **config})

    return make


def test_the_email_is_printed_byte_for_byte(example: Callable[..., Flask]) -> None:
    text = f"Subject: {EXAMPLE['subject']}\n\n{EXAMPLE['body']}\n"
    assert command(example(), "registration-email").raw == text.encode()
    there = example(IBI_RESOLVER_EMAIL="urlib@example.org")
    assert command(there, "registration-email").data == f"To: urlib@example.org\n{text}"


def test_the_email_is_sent_and_nothing_is_printed(example: Callable[..., Flask]) -> None:
    with post_office() as post:
        app = example(**post.settings, IBI_RESOLVER_EMAIL="urlib@example.org")
        for words, recipient in (([], "urlib@example.org"), (["--to", "a@b.org"], "a@b.org")):
            assert command(app, "registration-email", "--send", *words).data == ""
            assert [one.mail_from for one in post.accepted] == ["banon@dpi.inpe.br"]
            [received] = post.receive()
            assert received["To"] == recipient
            assert received["Subject"] == EXAMPLE["subject"]
            assert received.get_content() == EXAMPLE["body"] + "\n"


def test_an_email_that_cannot_be_sent_is_one_line(example: Callable[..., Flask]) -> None:
    send = ("registration-email", "--send")
    assert command(example(), *send).error.startswith("IBI_RESOLVER_EMAIL is not set; ")
    to = (*send, "--to", "a@b.org")
    assert command(example(), *to).error.startswith("MAIL_SERVER is not set; it should be ")
    without = example(IBI_REGISTRATION_KEY=None)
    assert command(without, "registration-email").error.startswith("IBI_REGISTRATION_KEY is not")
    assert "'nobody' is not an e-mail address" in command(example(), *send, "--to", "nobody").usage
