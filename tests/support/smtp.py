"""A mail server on loopback (aiosmtpd) that accepts e-mails or refuses them at a chosen step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, Envelope

from support.loopback import free_port


class Post:
    """The handler of the mail server.

    :ivar refuses: for each SMTP command (MAIL, RCPT, ...) the reply that refuses it.
    :ivar accepted: the e-mails that arrived.
    :ivar logins: user and password of each login.
    :ivar settings: the settings of an app that uses the server.
    """

    def __init__(self, **refuses: str) -> None:
        self.refuses = refuses
        self.accepted: list[Envelope] = []
        self.logins: list[tuple[str, str]] = []
        self.address = "127.0.0.1", free_port()
        self.settings: Any = {"MAIL_SERVER": self.address[0], "MAIL_PORT": self.address[1]}

    def reply(self, command: str) -> str:
        return self.refuses.get(command, "250 OK")

    async def handle_MAIL(self, server: Any, session: Any, envelope: Any, *sender: Any) -> str:
        envelope.mail_from = sender[0]
        return self.reply("MAIL")

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, *to: Any) -> str:
        envelope.rcpt_tos.append(to[0])
        return self.reply("RCPT")

    async def handle_DATA(self, server: Any, session: Any, envelope: Envelope) -> str:
        if "DATA" not in self.refuses:
            self.accepted.append(envelope)
        return self.reply("DATA")

    def log_in(self, server: Any, session: Any, envelope: Any, kind: str, login: Any) -> AuthResult:
        self.logins.append((login.login.decode(), login.password.decode()))
        refusal = self.refuses.get("AUTH")
        return AuthResult(success=refusal is None, handled=False, message=refusal)

    def receive(self) -> list[EmailMessage]:
        """Return the e-mails that have arrived, and forget them."""
        envelopes, self.accepted = self.accepted, []
        messages = []
        for envelope in envelopes:
            content = bytes(envelope.content or b"").replace(b"\r\n", b"\n")
            messages.append(message_from_bytes(content, policy=policy.default))
            assert messages[-1]["To"] == ", ".join(envelope.rcpt_tos)
        return messages


@contextmanager
def post_office(logs_in: bool = False, **refuses: str) -> Iterator[Post]:
    """Run a mail server.

    :param logs_in: whether the server offers a login.
    """
    post = Post(**refuses)
    options: dict[str, Any] = {"auth_require_tls": False, "authenticator": post.log_in}
    server = Controller(post, *post.address, **(options if logs_in else {}))
    server.start()
    try:
        yield post
    finally:
        server.stop()
