"""What the taker reads of an offer, at the server of the giver.

The giver is not trusted: requests go through the guard for addresses, redirects are not followed,
and every answer has a limit. The secret of the offer is only in the header Authorization, which no
error and no log contains.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

from flask_ibi_archive.archive.items.files import PartialFile
from flask_ibi_archive.core.protocol.hosts import InnerHosts
from flask_ibi_archive.core.records.offer_messages import (
    MAX_ITEMS,
    MAX_LINE,
    MAX_PAGE,
    OfferAddress,
    OfferDescription,
    OfferedRecord,
    StoredVersion,
    SwitchAnswer,
    SwitchRequest,
    format_switch,
    parse_answers,
    parse_offer,
    parse_offered,
)
from flask_ibi_archive.core.records.record import read_json
from flask_ibi_archive.core.records.values import FieldError
from flask_ibi_archive.errors import OfferError, StorageError, TransportError
from flask_ibi_archive.server.database.dialects import batched
from flask_ibi_archive.server.http.transport import BLOCK, HttpResponse, fetch, make_printable

Parsed = TypeVar("Parsed")

#: The number of times that a request is sent, and the seconds before each repetition.
WAITS = (1, 2, 4, 8)
#: The largest number of bytes of an answer that is not a page or a file. The answer to a switch
#: contains the daily counts of 500 items.
MAX_ANSWER = 64 << 20
#: The number of items that are read again with one request.
NUMBERS = 50
#: If the giver needs too long, it is asked to switch fewer items, but so many at a time.
FEW = 10
#: The statuses of a server that is not ready now.
BUSY = (429, 502, 503, 504)


@dataclass(frozen=True, slots=True)
class UnreadableItem:
    """An item whose line is wrong. It is refused, and the others are taken.

    :param name: an identifier, for the report; "" if there is none.
    """

    number: int
    name: str
    reason: str


class HttpOffer:
    """An offer at the server of the giver.

    :ivar name: the address without the secret, for messages, and to find an acceptance again.
    :ivar page_bytes: the number of bytes of the pages that were read.
    :param taker_address: the host and port of this Archive, which the giver stores.
    :param inner_hosts: the internal hosts that are allowed (IBI_INNER_HOSTS).
    :param seconds: the timeout for one answer. A file may take longer, if each answer within this
        time contains a part of it.
    :param wait: waits a number of seconds before a request is repeated.
    """

    def __init__(
        self,
        address: OfferAddress,
        taker_address: str,
        inner_hosts: InnerHosts,
        seconds: float = 120,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self.name = address.url
        self._headers = {"Authorization": f"Bearer {address.secret}", "Accept": "*/*"}
        self._taker_address = taker_address
        self._inner_hosts = inner_hosts
        self._seconds = seconds
        self._wait = wait
        self._batch = MAX_ITEMS
        self.page_bytes = 0

    def read_description(self) -> OfferDescription:
        """Return what the offer contains.

        :raises OfferError: if the giver refuses, or if the answer is wrong.
        """
        data = self._read_json(self._send("", limit=MAX_PAGE))
        return self._parse(parse_offer, data)

    def read_page(self, after: int) -> Sequence[OfferedRecord | UnreadableItem]:
        """Return the next items after a number; an empty list at the end.

        :raises OfferError: if the giver refuses, or if the answer is wrong.
        """
        response = self._send(f"/items?after={after}", limit=MAX_PAGE + MAX_LINE)
        self.page_bytes += len(response.body)
        return self._parse_page(response, MAX_ITEMS)

    def read_items(self, numbers: Sequence[int]) -> Sequence[OfferedRecord | UnreadableItem]:
        """Return items with the present versions of their records.

        Items that the giver does not have any more are left out.
        """
        items = list[OfferedRecord | UnreadableItem]()
        for part in batched(sorted(numbers), NUMBERS):
            items += self._read_part(part)
        return items

    def _read_part(self, numbers: list[int]) -> list[OfferedRecord | UnreadableItem]:
        """Return the items with a few numbers. Long items are read one by one."""
        path = f"/items?numbers={','.join(map(str, numbers))}"
        response = self._send(path, limit=MAX_PAGE + MAX_LINE, is_complete=len(numbers) == 1)
        if not response.complete:
            return [item for number in numbers for item in self._read_part([number])]
        items = self._parse_page(response, len(numbers))
        if not {item.number for item in items} <= set(numbers):
            raise OfferError(self.name, "does not send the items that were asked for")
        return items

    def read_file(self, number: int, path: str, sha256: str, size: int, file: PartialFile) -> None:
        """Write the rest of a file by Range requests, each of which continues the one before.

        :raises StorageError: if the giver does not have the file any more.
        """
        attempts = 0
        while file.size < size:
            begin = file.size
            headers = {"Range": f"bytes={begin}-", "Accept-Encoding": "identity"}
            try:
                response = self._send_once(
                    f"/files/{number}/{quote(path)}",
                    headers=headers,
                    limit=size + 1,
                    take=_PartWriter(file, begin),
                )
            except TransportError as error:
                attempts = 0 if file.size > begin else attempts + 1
                if not error.passing or attempts > len(WAITS):
                    raise
                self._wait(WAITS[attempts - 1] if attempts else 0)
                continue
            if response.status in (404, 409, 416):
                raise StorageError(f"the giver has no such file any more: {_explain(response)}")
            if response.status in BUSY and attempts < len(WAITS):
                self._wait(WAITS[attempts])
                attempts += 1
                continue
            if response.status not in (200, 206):
                raise OfferError(self.name, _explain(response))
            if file.size < size:
                raise StorageError(f"the file ends after {file.size} bytes, instead of {size}")

    def switch(self, items: Sequence[StoredVersion]) -> Sequence[SwitchAnswer]:
        """Ask the giver to switch items. If the answer is lost, the question is repeated.

        If the giver needs too long for many items, it is asked about fewer items at a time.
        """
        answers: list[SwitchAnswer] = []
        left = list(items)
        while left:
            part = left[: self._batch]
            try:
                answers += self._switch(part, WAITS if len(part) <= FEW else ())
                left = left[len(part) :]
            except (_Busy, TransportError) as error:
                if len(part) <= FEW or not getattr(error, "passing", True):
                    raise
                self._batch = max(len(part) // 4, FEW)
        return answers

    def _switch(
        self, items: Sequence[StoredVersion], waits: Sequence[float]
    ) -> Sequence[SwitchAnswer]:
        request = SwitchRequest(tuple(items), self._taker_address)
        body = json.dumps(format_switch(request)).encode()
        headers = {"Content-Type": "application/json"}
        response = self._send("/switch", limit=MAX_ANSWER, waits=waits, headers=headers, body=body)
        data = self._read_json(response)
        return self._parse(lambda value: parse_answers(value, items), data)

    # --- requests --------------------------------------------------------------------------------

    def _parse_page(
        self, response: HttpResponse, limit: int
    ) -> list[OfferedRecord | UnreadableItem]:
        """Return the items of a page.

        :param limit: the largest number of items.
        """
        lines = response.body.splitlines(keepends=True)
        if len(lines) > limit:
            raise OfferError(self.name, f"sends more than {limit} items in a page")
        return list(_parse_lines(self.name, lines))

    def _read_json(self, response: HttpResponse) -> Any:
        return self._parse(read_json, response.body)

    def _parse(self, parse: Callable[[Any], Parsed], value: Any) -> Parsed:
        try:
            return parse(value)
        except FieldError as error:
            reason = make_printable(str(error))
            raise OfferError(self.name, f"sends an answer that is wrong: {reason}") from error

    def _send(
        self,
        path: str,
        *,
        limit: int,
        is_complete: bool = True,
        waits: Sequence[float] = WAITS,
        **options: Any,
    ) -> HttpResponse:
        """Return the answer to a request, which is repeated if the answer is lost.

        :param waits: the seconds before each repetition.
        :param is_complete: whether an answer that is longer than the limit is an error.
        """
        for seconds in (*waits, None):
            try:
                response = self._send_once(path, limit=limit, **options)
            except TransportError as error:
                if seconds is None or not error.passing:
                    raise
            else:
                if response.status not in BUSY or seconds is None:
                    break
            self._wait(seconds)
        if response.status != 200:
            kind = _Busy if response.status in BUSY else OfferError
            raise kind(self.name, _explain(response))
        if is_complete and not response.complete:
            raise OfferError(self.name, f"sends an answer with more than {limit} bytes")
        return response

    def _send_once(
        self,
        path: str,
        *,
        limit: int,
        headers: Mapping[str, str] = {},
        body: bytes | None = None,
        take: _PartWriter | None = None,
    ) -> HttpResponse:
        return fetch(
            self.name + path,
            headers={**self._headers, **headers},
            seconds=self._seconds,
            limit=limit,
            inner_hosts=self._inner_hosts,
            body=body,
            take=take,
            block=BLOCK,
        )


class _Busy(OfferError):
    """The giver is not ready now."""


@dataclass
class _PartWriter:
    """Writes the blocks of an answer to a file whose first ``begin`` bytes are stored."""

    file: PartialFile
    begin: int

    def __call__(self, status: int, block: bytes) -> None:
        if status == 200 and self.begin:  # the server ignores the range
            self.file.restart()
            self.begin = 0
        self.file.write(block)


def _parse_lines(name: str, lines: Iterable[bytes]) -> Iterator[OfferedRecord | UnreadableItem]:
    """Yield the items of lines.

    :param name: the address of the offer, for messages.
    :raises OfferError: if a line does not even have a number.
    """
    for line in lines:
        try:
            yield parse_offered(line)
        except FieldError as error:
            yield _read_number(name, line, error)


def _read_number(name: str, line: bytes, error: FieldError) -> UnreadableItem:
    """Return the number and the name in a wrong line."""
    data: Any = None
    try:
        data = read_json(line)
        number, record = data["number"], data["record"]
        texts = [text for text in (record.get("rep"), record.get("ibip")) if isinstance(text, str)]
    except (FieldError, TypeError, KeyError, AttributeError):
        number, texts = None, []
    if not line.endswith(b"\n") or type(number) is not int or not 1 <= number < 1 << 31:
        raise OfferError(name, f"sends a wrong line: {make_printable(str(error))}") from error
    return UnreadableItem(number, make_printable((texts or [""])[0]), make_printable(str(error)))


def _explain(response: HttpResponse) -> str:
    """Return what a refusal of the giver says, in words that follow the address of the offer."""
    status = response.status
    if 300 <= status < 400:
        return f"redirects (status {status}); ask the giver for the present address of the offer"
    try:
        detail = read_json(response.body)["detail"]
    except (FieldError, TypeError, KeyError):
        detail = "it gives no reason"
    return f"answers with status {status}: {make_printable(str(detail))}"
