"""A giver in memory: a WSGI app that offers records, and may lose answers or lie."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from hashlib import sha256
from typing import Any

from werkzeug import Request, Response

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.moving.acceptances import ItemStatus
from flask_ibi_archive.archive.moving.accepting import Acceptor, Outcome
from flask_ibi_archive.archive.moving.http_offer import HttpOffer
from flask_ibi_archive.archive.moving.incoming import IncomingOffer
from flask_ibi_archive.core.records.offer_messages import (
    DailyCount,
    OfferAddress,
    OfferDescription,
    OfferedRecord,
    SwitchAnswer,
    format_answers,
    format_offer,
    format_offered,
    offer_record,
    parse_switch,
)
from flask_ibi_archive.core.records.record import parse_record
from support.archives import FAR_SERVICE, SERVICE
from support.loopback import LOOPBACK, serving

ID, SECRET = "0123456789abcdef", "s" * 43


class Killed(BaseException):
    """Raised where a test kills the process of the taker."""


@dataclass
class Giver:
    """A server that offers records.

    :param records: the records as JSON objects; the files have ``content`` instead of ``sha256``.
    :param page: the number of items in a page.
    :param answer: answers a request instead of the server; None: the server answers.
    :param loses: the numbers of the requests whose answers are lost, from 1.
    """

    records: list[dict[str, Any]]
    kind: str = "move"
    page: int = 3
    taker: str = SERVICE
    answer: Callable[[Request], Response | None] = lambda request: None
    loses: set[int] = field(default_factory=set)
    counts: dict[int, tuple[DailyCount, ...]] = field(default_factory=dict)
    stated: dict[str, Any] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    authorizations: set[str | None] = field(default_factory=set)
    switched: dict[int, str] = field(default_factory=dict)
    contents: dict[tuple[int, str], bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.items = [self._offer(number, one) for number, one in enumerate(self.records, 1)]

    def _offer(self, number: int, data: dict[str, Any]) -> OfferedRecord:
        files, sizes = [], {}
        for file in data.get("files", []):
            content = file["content"]
            self.contents[number, file["path"]] = content
            sizes[file["path"]] = len(content)
            files.append({"path": file["path"], "sha256": sha256(content).hexdigest()})
        record = {**data, **({"files": files} if files else {})}
        return offer_record(number, parse_record(record), sizes)

    def change(self, number: int, **values: Any) -> None:
        """Change a record."""
        self.records[number - 1].update(values)
        self.items[number - 1] = self._offer(number, self.records[number - 1])

    @property
    def description(self) -> dict[str, Any]:
        total = sum(size for item in self.items for size in item.sizes.values())
        expires = datetime(2999, 1, 1, tzinfo=timezone.utc)
        leaves = "Copy" if self.kind == "move" else None
        offer = OfferDescription(
            ID, self.kind, leaves, FAR_SERVICE, self.taker, expires, len(self.items), total, 1
        )
        return {**format_offer(offer), **self.stated}

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        request = Request(environ)
        self.requests.append(f"{request.method} {request.full_path.rstrip('?')}")
        self.authorizations.add(request.headers.get("Authorization"))
        is_lost = len(self.requests) in self.loses
        response = self.answer(request) or self._answer(request)
        if is_lost:
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        return response(environ, start_response)

    def _answer(self, request: Request) -> Response:
        path = request.path.removeprefix(f"/ibi/offers/{ID}")
        if path == "":
            return as_json(self.description)
        if path == "/items":
            return Response(b"".join(map(format_offered, self._select(request))))
        if path == "/switch":
            asked = parse_switch(json.loads(request.get_data())).items
            return as_json(
                format_answers([self._switch(item.number, item.version) for item in asked])
            )
        _, _, number, name = path.split("/", 3)
        content = self.contents[int(number), name]
        response = Response(content)
        return response.make_conditional(request, accept_ranges=True, complete_length=len(content))

    def _select(self, request: Request) -> list[OfferedRecord]:
        if "numbers" in request.args:
            numbers = {int(number) for number in request.args["numbers"].split(",")}
            return [item for item in self.items if item.number in numbers]
        after = int(request.args["after"])
        return self.items[after : after + self.page]

    def _switch(self, number: int, version: str) -> SwitchAnswer:
        if number in self.switched:
            version = self.switched[number]
        elif version != self.items[number - 1].version:
            return SwitchAnswer(number, "changed")
        elif not self.items[number - 1].record.transferable:
            return SwitchAnswer(number, "refused", "not transferable")
        if self.kind == "copy":
            return SwitchAnswer(number, "taken")
        self.switched[number] = version
        return SwitchAnswer(number, "switched", counts=self.counts.get(number, ()))


def as_json(value: Any, status: int = 200) -> Response:
    """Return a response with JSON."""
    return Response(json.dumps(value), status, content_type="application/json")


@dataclass
class Taking:
    """What a taker does with the offer of a giver.

    :ivar refused: the reasons by the identifiers of the refused items.
    """

    archive: Archive
    url: str
    refused: dict[str, str] = field(default_factory=dict)
    waited: list[float] = field(default_factory=list)
    on_progress: Callable[[int, int], None] = lambda done, total: None
    inner_hosts: Any = LOOPBACK
    seconds: float = 30

    def open(self) -> IncomingOffer:
        source = HttpOffer(
            OfferAddress(self.url, SECRET),
            "taker.example.br",
            self.inner_hosts,
            self.seconds,
            self.waited.append,
        )
        return IncomingOffer(self.archive.without_session().context, source)

    def run(self, **options: Any) -> Outcome:
        self.refused.clear()
        return Acceptor(self.open(), self.on_progress, self._add, **options).run()

    def examine(self) -> int:
        self.refused.clear()
        return self.open().examine(self.on_progress, self._add)

    def _add(self, item: ItemStatus) -> None:
        self.refused[item.ibi or str(item.number)] = str(item.reason)


@contextmanager
def taking(archive: Archive, giver: Giver) -> Iterator[Taking]:
    """Serve the offer of a giver, and yield what its taker can do."""
    with serving(giver) as address:
        yield Taking(archive, f"http://{address}/ibi/offers/{ID}")


def rep(number: int) -> str:
    """Return the identifier of the item with a number."""
    return f"a.br/x/2001/01.01.00.{number:02d}"


def item(number: int, **values: Any) -> dict[str, Any]:
    """Return a record."""
    title = {"dc": {"title": [f"Item {number}"]}}
    return {"rep": rep(number), "timestamp": "2020-01-01T00:00:00Z", "metadata": title, **values}
