"""E-mail through a real mail server, and the errors of servers that refuse an e-mail."""

from __future__ import annotations

import socket
import traceback
from email.message import EmailMessage
from threading import Event
from typing import Any

import pytest
from support.loopback import nobody, raw
from support.smtp import post_office
from support.vectors import load

from flask_ibi_archive.errors import ConfigError, MailError
from flask_ibi_archive.server.config import MailSettings
from flask_ibi_archive.server.mail import compose_email, send_email

EXAMPLE = load("messages.json")["email"]
TO = "urlib@example.org"
ADMIN = "banon@dpi.inpe.br"
PASSWORD = "hush-1234567890"


def settings(address: tuple[str, int] | str, **more: Any) -> MailSettings:
    if isinstance(address, str):
        host, _, port = address.partition(":")
        address = (host, int(port))
    values = {
        "server": address[0],
        "port": address[1],
        "use_tls": False,
        "use_ssl": False,
        "username": None,
        "password": None,
        "default_sender": "archive@example.org",
    }
    return MailSettings(**{**values, **more})


def example(
    mail: MailSettings | None, admin: str | None = ADMIN, subject: str = EXAMPLE["subject"]
) -> EmailMessage:
    return compose_email(mail, ("IBI_ARCHIVE_ADMIN_EMAIL", admin), TO, subject, EXAMPLE["body"])


@pytest.mark.rule("R5-02")
def test_the_email_arrives_unchanged() -> None:
    with post_office() as post:
        mail = settings(
            post.address,
            default_sender="Arquivo de São José <archive@example.org>",
        )
        send_email(mail, example(mail, subject="Inclusão do Arquivo"))
    [envelope] = post.accepted
    [received] = post.receive()
    assert (envelope.mail_from, envelope.rcpt_tos) == ("archive@example.org", [TO])
    assert bytes(envelope.content or b"").isascii()
    assert received["Subject"] == "Inclusão do Arquivo"
    assert received["From"] == "Arquivo de São José <archive@example.org>"
    assert (received["To"], received["Reply-To"]) == (TO, ADMIN)
    assert received["Date"].datetime is not None
    assert received["Message-ID"].endswith("@example.org>")
    assert received.get_content_charset() == "utf-8"
    payload = received.get_payload(decode=True)
    assert isinstance(payload, bytes)
    assert payload == EXAMPLE["body"].encode() + b"\n"


def test_a_message_needs_a_sender_and_a_server() -> None:
    message = example(settings(("x", 25), default_sender=None))
    assert (message["From"], message["Reply-To"]) == (ADMIN, None)
    for sender in (None, "nobody", "a@b.org, c@d.org", "a@b.org\nBcc: c@d.org", "@"):
        with pytest.raises(ConfigError) as caught:
            example(settings(("x", 25), default_sender=sender), admin=None)
        assert caught.value.key == "MAIL_DEFAULT_SENDER", sender
    with pytest.raises(ConfigError, match="MAIL_SERVER is not set"):
        send_email(None, example(None))


def test_user_and_password_are_sent_to_the_server() -> None:
    with post_office(logs_in=True) as post:
        mail = settings(post.address, username="banon", password=PASSWORD)
        send_email(mail, example(mail))
        line = refused(settings(post.address, username="banon", password=f"ã{PASSWORD}"))
    assert post.logins == [("banon", PASSWORD)]
    assert len(post.accepted) == 1
    assert "can't be used (UnicodeEncodeError); check MAIL_SERVER" in line


def refused(mail: MailSettings, **options: Any) -> str:
    """Return the error of an e-mail that is refused, after checking that it contains no secret."""
    with pytest.raises(MailError) as caught:
        send_email(mail, example(mail), **options)
    error = caught.value
    output = "".join(traceback.format_exception(error)) + repr(error) + repr(vars(error))
    assert (error.__cause__, error.__context__) == (None, None)
    assert PASSWORD not in output
    assert EXAMPLE["registrationkey"] not in output
    line = str(error)
    assert line.isprintable()
    assert line.startswith(f"the mail server {mail.server}:{mail.port} ")
    return line


@pytest.mark.parametrize(
    ("refuses", "reason"),
    [
        ({"MAIL": "550 not you"}, "refuses the e-mail: 550 not you"),
        ({"RCPT": "550 unknown"}, f"does not accept the recipient: {TO}: 550 unknown"),
        ({"DATA": "552 too \x1b[2J big"}, "refuses the e-mail: 552 too [2J big"),
        (
            {"AUTH": f"535 {PASSWORD}"},
            "does not accept MAIL_USERNAME and MAIL_PASSWORD (status 535)",
        ),
    ],
)
def test_each_refusal_of_a_mail_server_is_one_line(refuses: dict[str, str], reason: str) -> None:
    with post_office(logs_in=True, **refuses) as post:
        assert reason in refused(settings(post.address, username="banon", password=PASSWORD))


def test_a_missing_feature_of_the_server_is_one_line() -> None:
    for more, reason in (
        ({"use_tls": True}, "can't be used (SMTPNotSupportedError); check MAIL_SERVER"),
        ({"username": "banon", "password": PASSWORD}, "MAIL_USE_SSL and MAIL_USERNAME"),
        ({"use_ssl": True}, "can't be reached ([SSL"),
    ):
        with post_office() as post:
            assert reason in refused(settings(post.address, **more))
        assert post.accepted == []


def test_a_server_that_cannot_be_reached_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with nobody() as address:
        assert "can't be reached (Connection refused)" in refused(settings(address))

    def fail(*parts: object, **options: object) -> object:
        raise socket.gaierror(socket.EAI_NONAME, "no such name")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    assert "can't be reached (no such name)" in refused(settings("smtp.invalid:25"))


def test_a_server_that_does_not_speak_smtp_is_one_line() -> None:
    for data, reason in (
        (b"", "can't be used (SMTPServerDisconnected); check MAIL_SERVER"),
        (b"554 go away\r\n", "refuses the e-mail: 554 go away"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "refuses the e-mail"),
    ):
        with raw(lambda peer, data=data: peer.sendall(data)) as address:  # type: ignore[misc]
            assert reason in refused(settings(address)), data


def test_a_server_that_sends_slowly_takes_too_long() -> None:
    for head in (b"", b"220-"):
        done = Event()

        def talk(peer: socket.socket, head: bytes = head, done: Event = done) -> None:
            peer.sendall(head)
            while not done.wait(0.02):
                peer.sendall(b"x")

        with raw(talk) as address:
            line = refused(settings(address), seconds=0.2)
            done.set()
        assert "took too long" in line, head
