"""A mail server on loopback (aiosmtpd) that accepts e-mails or refuses them at a chosen step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from queue import SimpleQueue
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

from support.loopback import free_port


@dataclass
class Post:
    """The behaviour of the mail server, and the e-mails that it received.

    :param refuses: for each SMTP command (MAIL, RCPT, ...) the reply that refuses it.
    :param accepted: sender, recipients and data of each e-mail.
    :param logins: user and password of each login.
    """

    refuses: dict[str, str] = field(default_factory=dict)
    accepted: SimpleQueue[tuple[str, list[str], bytes]] = field(default_factory=SimpleQueue)
    logins: list[tuple[str, str]] = field(default_factory=list)
    address: tuple[str, int] = ("", 0)

    async def handle_MAIL(self, server: Any, session: Any, envelope: Any, *sender: Any) -> str:
        envelope.mail_from = sender[0]
        return self.refuses.get("MAIL", "250 OK")

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, *to: Any) -> str:
        envelope.rcpt_tos.append(to[0])
        return self.refuses.get("RCPT", "250 OK")

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        if "DATA" not in self.refuses:
            self.accepted.put((envelope.mail_from, envelope.rcpt_tos, envelope.content))
        return self.refuses.get("DATA", "250 OK")

    def log_in(self, server: Any, session: Any, envelope: Any, kind: str, login: Any) -> AuthResult:
        self.logins.append((login.login.decode(), login.password.decode()))
        refusal = self.refuses.get("AUTH")
        return AuthResult(success=refusal is None, handled=False, message=refusal)


@contextmanager
def post_office(logs_in: bool = False, **behaviour: Any) -> Iterator[Post]:
    """Run a mail server with the behaviour of :class:`Post`.

    :param logs_in: whether the server offers a login.
    """
    post = Post(**behaviour, address=("127.0.0.1", free_port()))
    host, port = post.address
    options: dict[str, Any] = {"auth_require_tls": False, "authenticator": post.log_in}
    server = Controller(post, host, port, **(options if logs_in else {}))
    server.start()
    try:
        yield post
    finally:
        server.stop()


def receive(post: Post) -> list[EmailMessage]:
    """Return the e-mails that have arrived."""
    messages = []
    while not post.accepted.empty():
        _, recipients, data = post.accepted.get()
        message = message_from_bytes(data.replace(b"\r\n", b"\n"), policy=policy.default)
        assert message["To"] == ", ".join(recipients)
        messages.append(message)
    return messages
