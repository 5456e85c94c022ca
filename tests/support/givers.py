"""A giver in memory, which offers records, and may lose answers or lie; and its taker."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from hashlib import sha256
from typing import Any

from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.moving.accepting import Acceptor, Outcome
from flask_ibi_archive.archive.moving.client import OfferClient
from flask_ibi_archive.core.records import offer_messages as messages
from flask_ibi_archive.core.records.record import parse_record
from support.archives import FAR_SERVICE, SERVICE
from support.loopback import LOOPBACK

ID, SECRET = "0123456789abcdef", "s" * 43


class Killed(BaseException):
    """Raised where a test kills the process of the taker."""


@dataclass
class Giver:
    """A server that offers records.

    :param records: the records as JSON objects; the files have ``content`` instead of ``sha256``.
    :param stated: values that the description of the offer states instead of the right ones.
    :ivar page: the number of items in a page.
    :ivar answer: answers a request instead of the server; None: the server answers.
    :ivar loses: the numbers of the requests whose answers are lost, from 1.
    """

    server: HTTPServer
    records: list[dict[str, Any]]
    kind: str = "move"
    stated: Mapping[str, Any] = field(default_factory=dict)
    page: int = 3

    def __post_init__(self) -> None:
        self.answer: Callable[[Request], Response | None] = lambda request: None
        self.loses: set[int] = set()
        self.counts: dict[int, tuple[messages.DailyCount, ...]] = {}
        self.requests: list[str] = []
        self.authorizations: set[str | None] = set()
        self.moved: set[int] = set()
        self.contents: dict[tuple[int, str], bytes] = {}
        self.server.clear()
        self.server.expect_request(re.compile("/.*")).respond_with_handler(self._handle)

    @property
    def items(self) -> list[messages.OfferedRecord]:
        """The items as they are offered now."""
        return [self._offer(number, data) for number, data in enumerate(self.records, 1)]

    def _offer(self, number: int, data: dict[str, Any]) -> messages.OfferedRecord:
        record = {name: value for name, value in data.items() if name != "files"}
        sizes = {}
        for file in data.get("files", []):
            path, content = file["path"], file["content"]
            self.contents.setdefault((number, path), content)
            sizes[path] = len(content)
            digest = sha256(content).hexdigest()
            record.setdefault("files", []).append({"path": path, "sha256": digest})
        return messages.offer_record(number, parse_record(record), sizes, number in self.moved)

    def _handle(self, request: Request) -> Response:
        self.requests.append(f"{request.method} {request.full_path.rstrip('?')}")
        self.authorizations.add(request.headers.get("Authorization"))
        is_lost = len(self.requests) in self.loses
        response = self.answer(request) or self.respond(request)
        if is_lost:
            request.environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        return response

    def respond(self, request: Request) -> Response:
        """Return the right answer to a request."""
        path, items = request.path.removeprefix(f"{messages.PATH}/{ID}"), self.items
        if path == "":
            sizes = [size for item in items for size in item.sizes.values()]
            offer = messages.OfferDescription(
                *(ID, self.kind, "Copy" if self.kind == "move" else None, FAR_SERVICE, SERVICE),
                *(datetime(2999, 1, 1, tzinfo=timezone.utc), len(items), sum(sizes), len(sizes)),
            )
            return as_json({**messages.format_offer(offer), **self.stated})
        if path == "/items":
            after = int(request.args["after"])
            return Response(b"".join(map(messages.format_offered, items[after:][: self.page])))
        if path == "/switch":
            asked = messages.parse_switch(request.get_json()).items
            return as_json(messages.format_answers(map(self._switch, asked)))
        _, _, number, name = path.split("/", 3)
        content = self.contents[int(number), name]
        response = Response(content)
        return response.make_conditional(request, accept_ranges=True, complete_length=len(content))

    def _switch(self, asked: messages.StoredVersion) -> messages.SwitchAnswer:
        item = self.items[asked.number - 1]
        if not item.moved and asked.version != item.version:
            return messages.SwitchAnswer(asked.number, "changed")
        if not item.record.transferable:
            return messages.SwitchAnswer(asked.number, "refused", "not transferable")
        self.moved.add(asked.number)
        counts = self.counts.get(asked.number, ())
        return messages.SwitchAnswer(asked.number, "switched", counts=counts)


def as_json(value: Any, status: int = 200) -> Response:
    """Return a response with JSON."""
    return Response(json.dumps(value), status, content_type="application/json")


@dataclass
class Taking:
    """What an Archive does with the offer of a giver.

    :ivar refused: the reasons by the identifiers of the refused items.
    :ivar waited: the seconds that it has waited before it repeated requests.
    """

    archive: Archive
    giver: Giver
    inner_hosts: Any = LOOPBACK
    refused: dict[str, str] = field(default_factory=dict)
    waited: list[float] = field(default_factory=list)

    def open(self) -> Acceptor:
        """Read the description of the offer."""
        url = f"http://127.0.0.1:{self.giver.server.port}{messages.PATH}/{ID}"
        address = messages.OfferAddress(url, SECRET)
        client = OfferClient(address, "taker.example.br", self.inner_hosts, self.waited.append)
        self.refused.clear()
        context = self.archive.without_session().context
        return Acceptor(context, client, lambda done, total: None, self.refused.__setitem__)

    def run(self) -> Outcome:
        """Accept the offer."""
        return self.open().run()


def rep(number: int) -> str:
    """Return the identifier of the item with a number."""
    return f"a.br/x/2001/01.01.00.{number:02d}"


def item(number: int, **values: Any) -> dict[str, Any]:
    """Return a record."""
    title = {"dc": {"title": [f"Item {number}"]}}
    return {"rep": rep(number), "timestamp": "2020-01-01T00:00:00Z", "metadata": title, **values}
