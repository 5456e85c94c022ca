"""A federation of simulated Archives: what each of them holds, claims and answers.

Everything is computed from a seed and from numbers, so that millions of items need no memory. Each
Archive mints the same number of items, and each item of a number has the same role everywhere: a
few are removed, have Copies, a next edition or a translation, in the same Archive or in another.
"""

from __future__ import annotations

import random
import re
from calendar import timegm
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from time import gmtime
from typing import Any, NamedTuple

from support.stores import MemoryCatalogue, make_facts

from flask_ibi_archive.core.claims.claim import Claim, format_claim
from flask_ibi_archive.core.claims.keys import SigningKey
from flask_ibi_archive.core.identifiers import (
    Form,
    build_ibip_prefix,
    build_ibip_suffix,
    decode_identifier,
    parse_identifier,
)
from flask_ibi_archive.core.protocol.messages import build_response, parse_request
from flask_ibi_archive.core.protocol.query_strings import decode_query_string
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.protocol.url_list import answer_url_request

#: How an Archive fails: it refuses connections, never answers, or lies.
DEAD, HANGING = "dead", "hanging"
#: How an Archive lies: it does not know the items that it claims, it claims the Originals of
#: another Archive, it signs with another key, or it signs two trees of one size.
DENIES, RIVAL, FORGES, FORKS = "denies", "rival", "forges", "forks"
LIES = (DENIES, RIVAL, FORGES, FORKS)

#: Items with these roles are special; all others are Originals of one Archive.
ROLES = 20
REMOVED = 1
#: The next item is the next edition, in the same Archive or in another.
EDITION, FAR_EDITION = 2, 4
#: The next item is the translation into Portuguese, in the same Archive or in another.
TRANSLATION, FAR_TRANSLATION = 6, 8
#: Another Archive has Copies of the items with the last roles.
FIRST_COPIED = 16
#: The items whose Originals a rival claims.
CLAIMED = 10

URL_KEY = "1234567890-1234567890"
_REP = re.compile(r"sim\.br/n([0-9]+)/([0-9]{4})/([0-9]{2})\.([0-9]{2})\.([0-9]{2})\.([0-9]{2})")


class Item(NamedTuple):
    """An item: the Archive that minted it, and its number there."""

    archive: int
    number: int

    @property
    def date(self) -> tuple[int, int, int, int, int]:
        """The year, month, day, hour and minute of the minting; all months have 28 days."""
        hours, minute = divmod(self.number, 60)
        days, hour = divmod(hours, 24)
        months, day = divmod(days, 28)
        year, month = divmod(months, 12)
        return 2001 + year, 1 + month, 1 + day, hour, minute

    @property
    def rep(self) -> str:
        """The repository name."""
        year, month, day, hour, minute = self.date
        return f"sim.br/n{self.archive}/{year}/{month:02}.{day:02}.{hour:02}.{minute:02}"

    @property
    def ibip(self) -> str:
        """The IBIp."""
        seconds = Fraction(timegm((*self.date, 0)))
        return f"{_ibip_prefix(self.archive)}/{build_ibip_suffix(seconds)}"

    @property
    def timestamp(self) -> str:
        """The time of the last update."""
        year, month, day, hour, minute = self.date
        return f"{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:00Z"

    @property
    def role(self) -> int:
        """What is special about the item."""
        return self.number % ROLES

    @property
    def language(self) -> str:
        """The language of the text."""
        return "pt" if self.role in (TRANSLATION + 1, FAR_TRANSLATION + 1) else "en"


def find_item(ibi: str) -> Item | None:
    """Return the item that an identifier in canonical case would name; None for a foreign one."""
    found = _REP.fullmatch(ibi)
    if found is not None:
        archive, *date = map(int, found.groups())
        return Item(archive, _count_minutes(*date))
    identifier = parse_identifier(ibi)
    if identifier.form is not Form.IBIP:
        return None
    decoded = decode_identifier(identifier)
    words = str(decoded.ip).split(".")
    if words[0] != "20" or decoded.date is None:
        return None
    moment = gmtime(int(decoded.date))
    archive = int.from_bytes(bytes(map(int, words[1:])), "big")
    return Item(archive, _count_minutes(*moment[:5]))


def _count_minutes(year: int, month: int, day: int, hour: int, minute: int) -> int:
    return ((((year - 2001) * 12 + month - 1) * 28 + day - 1) * 24 + hour) * 60 + minute


@lru_cache(maxsize=65536)
def _ibip_prefix(archive: int) -> str:
    return build_ibip_prefix("20." + ".".join(map(str, archive.to_bytes(3, "big"))), 800)


def service_of(archive: int) -> str:
    """Return the IBI of an Archive's service."""
    return f"sim.br/n{archive}/2000/01.01.00.00"


class Holding(NamedTuple):
    """An item that an Archive has, with the state there."""

    item: Item
    state: State


@dataclass(frozen=True)
class Federation:
    """The Archives with their items.

    :param archives: the number of Archives.
    :param items: the number of items that each of them minted.
    :param port: the port of all Archives that never die.
    :param mortal_port: the port of the Archives that will be dead.
    :param dead: the share of dead Archives; ``hanging`` and ``lying`` alike.
    :param claimed: further Originals that Archives claim, by the number of the Archive.
    """

    archives: int
    items: int
    seed: int = 1
    dead: float = 0.05
    hanging: float = 0.01
    lying: float = 0.001
    port: int = 0
    mortal_port: int = 0
    claimed: dict[int, list[Item]] = field(default_factory=dict)

    @cached_property
    def faults(self) -> dict[int, str]:
        """How Archives fail, by their number. All others are good."""
        shares = (self.dead, self.hanging, self.lying)
        dead, hanging, lying = (round(self.archives * share) for share in shares)
        chosen = random.Random(self.seed).sample(range(self.archives), dead + hanging + lying)
        kinds = [DEAD] * dead + [HANGING] * hanging
        kinds += [LIES[number % len(LIES)] for number in range(lying)]
        return dict(zip(chosen, kinds, strict=True))

    def shift(self, archive: int, by: int) -> int:
        """Return the number of another Archive."""
        return (archive + by * (1 + self.seed % 7)) % self.archives

    def address(self, archive: int) -> str:
        """Return the host and port of an Archive: each has another loopback address."""
        high, low = divmod(archive, 65536)
        port = self.mortal_port if self.faults.get(archive) == DEAD else self.port
        return f"127.{1 + high}.{low // 256}.{low % 256}:{port}"

    def signing_key(self, archive: int, *, forged: bool = False) -> SigningKey:
        """Return the key of an Archive."""
        numbers = random.Random(f"{self.seed} {archive} {forged}")
        return SigningKey(service_of(archive), numbers.randbytes(32))

    # --- items -----------------------------------------------------------------------------------

    def next_edition(self, item: Item) -> Item | None:
        """Return the next edition of an item."""
        if item.role == EDITION:
            return Item(item.archive, item.number + 1)
        if item.role == FAR_EDITION:
            return Item(self.shift(item.archive, 2), item.number + 1)
        return None

    def translation(self, item: Item) -> Item | None:
        """Return the translation of an item."""
        if item.role == TRANSLATION:
            return Item(item.archive, item.number + 1)
        if item.role == FAR_TRANSLATION:
            return Item(self.shift(item.archive, 3), item.number + 1)
        return None

    def copying(self, item: Item) -> int | None:
        """Return the Archive that has a Copy of an item."""
        return self.shift(item.archive, 1) if item.role >= FIRST_COPIED else None

    def list_holdings(self, archive: int) -> Iterator[Holding]:
        """Yield what an Archive claims, in the order of its log."""
        for number in range(self.items):
            item = Item(archive, number)
            yield Holding(item, State.DELETED if item.role == REMOVED else State.ORIGINAL)
        original = self.shift(archive, -1)
        for number in range(self.items):
            item = Item(original, number)
            if item.role >= FIRST_COPIED:
                yield Holding(item, State.COPY)
        for item in self.claimed.get(archive, ()):
            yield Holding(item, State.ORIGINAL)

    def find_state(self, archive: int, item: Item) -> State | None:
        """Return the state of an item at an Archive; None if the Archive does not have it."""
        if item in self.claimed.get(archive, ()):
            return State.ORIGINAL
        if not 0 <= item.number < self.items or not 0 <= item.archive < self.archives:
            return None
        if item.archive == archive:
            return State.DELETED if item.role == REMOVED else State.ORIGINAL
        return State.COPY if self.copying(item) == archive else None

    def format_claim(self, holding: Holding) -> bytes:
        """Return the entry of a log about a holding."""
        item, state = holding
        return format_claim(
            Claim(
                item.rep,
                item.ibip,
                state,
                item.timestamp,
                service_of(item.archive) if state is State.COPY else None,
            )
        )

    # --- answers ---------------------------------------------------------------------------------

    def answer(self, archive: int, ibi: str, query: str) -> str:
        """Return the answer of an Archive to a request.

        :param ibi: the identifier in the query.
        """
        item = find_item(ibi)
        state = None if item is None else self.find_state(archive, item)
        if item is None or state is None:
            return ""
        if state is not State.DELETED and "verblist" not in query and "filepath" not in query:
            address = self.address(archive)
            return (
                f"archiveaddress {address}\r\ncontenttype Data\r\n"
                f"ibi {{rep {item.rep} ibip {item.ibip}}}\r\n"
                f"ibi.archiveservice {{rep {service_of(archive)}}}\r\n"
                f"ibi.platformsoftware {{}}\r\nstate {state.value}\r\n"
                f"timestamp {item.timestamp}\r\nurl {self.url(archive, item)}\r\n"
                f"urlkey {URL_KEY}"
            )
        return self.answer_by_records(archive, item, query)

    def url(self, archive: int, item: Item) -> str:
        """Return the URL of the file of an item."""
        return f"http://{self.address(archive)}/col/{item.rep}/doc/text.pdf"

    def answer_by_records(self, archive: int, item: Item, query: str) -> str:
        """Return the answer that the core computes from records, which takes longer."""
        related = (item, self.next_edition(item), self.translation(item))
        records = [
            self._record(one, state)
            for one in related
            if one is not None and (state := self.find_state(archive, one)) is not None
        ]
        catalogue = MemoryCatalogue(records)
        facts = make_facts(self.address(archive), service_of(archive), None)
        return build_response(
            parse_request(decode_query_string(query.encode())),
            lambda request: answer_url_request(catalogue, request, facts, lambda found: URL_KEY),
        )

    def _record(self, item: Item, state: State) -> dict[str, Any]:
        record: dict[str, Any] = {
            "rep": item.rep,
            "ibip": item.ibip,
            "state": state.value,
            "timestamp": item.timestamp,
        }
        if state is State.DELETED:
            return record
        record |= {"language": item.language, "files": [{"path": "text.pdf"}]}
        if state is State.COPY:
            record["original_archive"] = service_of(item.archive)
        following, translated = self.next_edition(item), self.translation(item)
        if following is not None:
            record["next_edition"] = following.rep
        if translated is not None:
            record["translations"] = {translated.language: translated.rep}
        return record

    def good_archives(self) -> Sequence[int]:
        """Return the numbers of the Archives that never fail."""
        return [number for number in range(self.archives) if number not in self.faults]
