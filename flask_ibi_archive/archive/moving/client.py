"""Reads an offer from the server of the giver (the Archive that made the offer).

The giver is not trusted: requests go through the guard for addresses, redirects are not followed,
and every answer has a limit. The secret of the offer is only in the header Authorization, which no
error and no log contains.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

from flask_ibi_archive.archive.items.files import PartialFile
from flask_ibi_archive.core.protocol.hosts import InnerHosts
from flask_ibi_archive.core.records import offer_messages as messages
from flask_ibi_archive.core.records.offer_messages import OfferedRecord
from flask_ibi_archive.core.records.record import read_json
from flask_ibi_archive.core.records.values import FieldError
from flask_ibi_archive.errors import OfferError, StorageError, TransportError
from flask_ibi_archive.server.http.transport import BLOCK, HttpResponse, fetch, make_printable

Parsed = TypeVar("Parsed")

#: The seconds before each repetition of a request whose answer is lost.
WAITS = (1, 2, 4, 8)
#: The largest number of bytes of an answer that is not a file. The answer to a switch contains the
#: daily counts of 50 items.
MAX_ANSWER = messages.MAX_PAGE + messages.MAX_LINE
#: The timeout for one answer. A file may take longer, if each answer contains a part of it.
SECONDS = 120
#: The statuses of a server that is not ready now.
BUSY = (429, 502, 503, 504)


@dataclass(frozen=True, slots=True)
class UnreadableItem:
    """An item of an offer that cannot be parsed. It is refused; the other items are taken.

    :param name: an identifier, for the report; "" if there is none.
    """

    number: int
    name: str
    reason: str


class OfferClient:
    """Sends requests about one offer to the giver.

    :ivar name: the address without the secret, for messages.
    :param taker_address: the host and port of this Archive, which the giver stores.
    :param inner_hosts: the internal hosts that are allowed (IBI_INNER_HOSTS).
    :param wait: waits a number of seconds before a request is repeated.
    """

    def __init__(
        self,
        address: messages.OfferAddress,
        taker_address: str,
        inner_hosts: InnerHosts,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self.name: str = address.url
        self._headers = {"Authorization": f"Bearer {address.secret}", "Accept": "*/*"}
        self._taker_address = taker_address
        self._inner_hosts = inner_hosts
        self._wait = wait

    def read_description(self) -> messages.OfferDescription:
        """Return what the offer contains.

        :raises OfferError: if the giver refuses, or if the answer is wrong.
        """
        return self._parse(messages.parse_offer, self._send("").body)

    def read_page(self, after: int, last: int) -> Sequence[OfferedRecord | UnreadableItem]:
        """Return the next items after a number; an empty list at the end.

        :param last: the number of the last item of the offer.
        :raises OfferError: if the giver refuses, or if the answer is wrong.
        """
        lines = self._send(f"/items?after={after}").body.splitlines(keepends=True)
        items = [self._parse_line(line) for line in lines]
        numbers = [item.number for item in items]
        right = sorted({number for number in numbers if after < number <= last})
        if numbers != right or len(numbers) > messages.MAX_ITEMS:
            raise OfferError(self.name, "sends items with wrong numbers")
        return items

    def read_file(self, number: int, path: str, size: int, file: PartialFile) -> None:
        """Fetch the rest of a file, and write it.

        If a connection breaks, another Range request continues where the file ends.

        :param number: the number of the item in the offer.
        :param size: the size of the whole file in bytes.
        :raises StorageError: if the giver does not have the file any more.
        """
        part = _Part(file)
        while file.size < size:
            begin = file.size
            try:
                response = self._request(f"/files/{number}/{quote(path)}", part, size + 1)
            except TransportError:
                if file.size == begin:
                    raise
                continue
            if response.status in (404, 409, 416):
                raise StorageError(f"the giver has no such file any more: {_explain(response)}")
            if response.status not in (200, 206):
                raise OfferError(self.name, _explain(response))
            if file.size < size:
                raise StorageError(f"the file ends after {file.size} bytes, instead of {size}")

    def switch(self, items: Sequence[messages.StoredVersion]) -> Sequence[messages.SwitchAnswer]:
        """Ask the giver to give up its Originals, and return its answers.

        If the answer is lost, the question is repeated.
        """
        request = messages.SwitchRequest(tuple(items), self._taker_address)
        body = json.dumps(messages.format_switch(request)).encode()
        response = self._send("/switch", body)
        return self._parse(lambda value: messages.parse_answers(value, items), response.body)

    # --- requests --------------------------------------------------------------------------------

    def _send(self, path: str, body: bytes | None = None) -> HttpResponse:
        """Send a request, and return the answer if it is complete and has the status 200."""
        response = self._request(path, None, MAX_ANSWER, body)
        if response.status != 200:
            raise OfferError(self.name, _explain(response))
        if not response.complete:
            raise OfferError(self.name, f"sends an answer with more than {MAX_ANSWER} bytes")
        return response

    def _request(
        self,
        path: str,
        part: _Part | None,
        limit: int,
        body: bytes | None = None,
    ) -> HttpResponse:
        """Send a request, and return the answer. If no answer comes, repeat the request.

        :param part: writes the body of the answer to a file; None: the answer contains the body.
        """
        headers = self._headers | ({"Content-Type": "application/json"} if body else {})
        for seconds in (*WAITS, None):
            try:
                response = fetch(
                    self.name + path,
                    headers=headers | (part.begin() if part else {}),
                    seconds=SECONDS,
                    limit=limit,
                    inner_hosts=self._inner_hosts,
                    body=body,
                    take=part,
                    block=BLOCK,
                )
            except TransportError as error:
                if seconds is None or not error.passing:
                    raise
            else:
                if seconds is None or response.status not in BUSY:
                    break
            self._wait(seconds)
        return response

    def _parse(self, parse: Callable[[Any], Parsed], body: bytes) -> Parsed:
        try:
            return parse(read_json(body))
        except FieldError as error:
            reason = make_printable(str(error))
            raise OfferError(self.name, f"sends an answer that is wrong: {reason}") from error

    def _parse_line(self, line: bytes) -> OfferedRecord | UnreadableItem:
        """Parse a line that describes an item.

        :returns: UnreadableItem if the line is wrong, but has a number.
        :raises OfferError: if the line does not even have a number.
        """
        try:
            return messages.parse_offered(line)
        except FieldError as error:
            reason = make_printable(str(error))
        try:
            data = read_json(line)
            number, record = data["number"], data["record"]
            names = [text for text in map(record.get, ("rep", "ibip")) if isinstance(text, str)]
        except (FieldError, TypeError, KeyError, AttributeError):
            number, names = None, []
        if not line.endswith(b"\n") or type(number) is not int or not 1 <= number < 1 << 31:
            raise OfferError(self.name, f"sends a wrong line: {reason}")
        return UnreadableItem(number, make_printable([*names, ""][0]), reason)


class _Part:
    """Writes the body of an answer to the end of a file."""

    def __init__(self, file: PartialFile) -> None:
        self._file = file
        self._begin = 0

    def begin(self) -> dict[str, str]:
        """Note where the file ends now, and return the headers of a request for the rest."""
        self._begin = self._file.size
        return {"Range": f"bytes={self._begin}-", "Accept-Encoding": "identity"}

    def __call__(self, status: int, block: bytes) -> None:
        if status == 200 and self._begin:  # the server ignores the range
            self._file.restart()
            self._begin = 0
        self._file.write(block)


def _explain(response: HttpResponse) -> str:
    """Return the text of a refusal, to be written after the address of the offer."""
    status = response.status
    if 300 <= status < 400:
        return f"redirects (status {status}); ask the giver for the present address of the offer"
    try:
        detail = read_json(response.body)["detail"]
    except (FieldError, TypeError, KeyError):
        detail = "it gives no reason"
    return f"answers with status {status}: {make_printable(str(detail))}"
