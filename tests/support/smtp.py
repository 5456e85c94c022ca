"""A mail server on loopback that accepts e-mails or refuses them at a chosen step."""

from __future__ import annotations

import base64
import socketserver
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from queue import SimpleQueue
from threading import Thread


@dataclass
class Post:
    """The behaviour of the mail server, and the e-mails that it received.

    :param refuses: for each SMTP command (MAIL, RCPT, ...) the reply that refuses it.
    :param offers: the extensions in the reply to EHLO.
    :param accepted: sender, recipients and data of each e-mail.
    """

    refuses: dict[str, str] = field(default_factory=dict)
    offers: tuple[str, ...] = ()
    accepted: SimpleQueue[tuple[str, list[str], bytes]] = field(default_factory=SimpleQueue)
    logins: list[str] = field(default_factory=list)
    address: tuple[str, int] = ("", 0)


class _Talk(socketserver.StreamRequestHandler):
    post: Post

    def handle(self) -> None:
        if "connect" in self.post.refuses:
            self.reply(self.post.refuses["connect"])
            return
        self.reply("220 post.example.org")
        sender, recipients = "", list[str]()
        while line := self.rfile.readline().decode().strip():
            verb = line.partition(" ")[0].upper()
            refusal = self.post.refuses.get(verb)
            if refusal is not None:
                if not refusal:
                    return
                self.reply(refusal)
            elif verb == "EHLO":
                lines = ["post.example.org", *self.post.offers]
                for number, text in enumerate(lines, 1):
                    self.reply(f"250{' ' if number == len(lines) else '-'}{text}")
            elif verb == "AUTH":
                self.post.logins.append(base64.b64decode(line.split()[2]).decode())
                self.reply("235 welcome")
            elif verb == "MAIL":
                sender = line.partition(":")[2].split()[0].strip("<>")
                recipients = []
                self.reply("250 ok")
            elif verb == "RCPT":
                recipients.append(line.partition(":")[2].split()[0].strip("<>"))
                self.reply("250 ok")
            elif verb == "DATA":
                self.reply("354 go on")
                data = b""
                while (more := self.rfile.readline()) not in (b".\r\n", b""):
                    data += more.removeprefix(b".")
                # Before the reply, because the sender goes on as soon as it has it.
                self.post.accepted.put((sender, recipients, data))
                self.reply(self.post.refuses.get("data", "250 accepted"))
            elif verb == "QUIT":
                self.reply("221 bye")
                return
            else:
                self.reply("250 ok")

    def reply(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = False
    block_on_close = True


@contextmanager
def post_office(**behaviour: object) -> Iterator[Post]:
    """Run a mail server with the behaviour of :class:`Post`."""
    post = Post(**behaviour)  # type: ignore[arg-type]
    server = _Server(("127.0.0.1", 0), type("Talk", (_Talk,), {"post": post}))
    post.address = ("127.0.0.1", server.server_address[1])
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield post
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def receive(post: Post) -> list[EmailMessage]:
    """Return the e-mails that have arrived."""
    found = []
    while not post.accepted.empty():
        _, recipients, data = post.accepted.get()
        message = message_from_bytes(data.replace(b"\r\n", b"\n"), policy=policy.default)
        assert message["To"] == ", ".join(recipients)
        found.append(message)
    return found
