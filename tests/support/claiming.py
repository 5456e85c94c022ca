"""An Archive that publishes claims, in memory, and a resolver that follows it."""

from __future__ import annotations

import gzip
import random
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from datetime import datetime, timezone
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import delete, insert, select

from flask_ibi_archive.core.claim import Claim, Page, fold_name, format_claim, format_page
from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.core.identifiers.grammar import Form, match_identifier
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.resolver.archives import bump_version
from flask_ibi_archive.resolver.tables import (
    STATE_NUMBERS,
    ClaimedName,
    FollowedArchive,
    PrefixHolder,
    RegisteredArchive,
)
from flask_ibi_archive.server.database.database import Database
from support.archive_servers import http
from support.registries import NOON, SERVICE

OTHER = "b.br/service/2001/01.01.00.00"


def an_ibi(number: int = 0, place: str = "a.br/items") -> str:
    """Return an identifier; each number is another one."""
    rest, minute = divmod(number, 60)
    rest, hour = divmod(rest, 24)
    rest, day = divmod(rest, 28)
    year, month = divmod(rest, 12)
    return f"{place}/{2001 + year}/{month + 1:02}.{day + 1:02}.{hour:02}.{minute:02}"


def a_claim(number: int = 0, state: State | None = State.ORIGINAL, **values: Any) -> Claim:
    """Return a claim of an item; each number is another item. None: it is no longer claimed."""
    item = values.pop("item", str(number))
    if state is None:
        return Claim(item)
    if state is State.COPY:
        values.setdefault("original_archive", OTHER)
    rep = values.pop("rep", an_ibi(number))
    return Claim(item, rep, state=state, timestamp="2026-03-01T12:00:00Z", **values)


class ClaimingArchive:
    """The list of changes of an Archive (core/claim.py).

    :param clock: returns the time.
    :ivar lines: the line of each item with the number of its last change.
    """

    def __init__(
        self, service: str = SERVICE, clock: Callable[[], datetime] = lambda: NOON, seed: int = 0
    ) -> None:
        self.service = service
        self.clock = clock
        self.key = Ed25519PrivateKey.from_private_bytes(bytes([seed] * 32))
        self.random = random.Random(seed)
        self.claims: dict[str, Claim] = {}
        self.lines: dict[str, tuple[int, str]] = {}
        #: The random word of each change.
        self.words = ["0"]
        self.hidden: tuple[str, ...] = ()

    @property
    def public_key(self) -> str:
        """The key as resolvers store it."""
        return b64encode(self.key.public_key().public_bytes_raw()).decode()

    def set(self, *claims: Claim | str) -> ClaimingArchive:
        """Change items, and return the Archive. A text is a line without a check."""
        for claim in claims:
            line = claim if isinstance(claim, str) else format_claim(claim)
            item = line.split()[1]
            self.lines.pop(item, None)
            self.lines[item] = (len(self.words), line)
            self.words.append(self._word())
            if isinstance(claim, Claim):
                self.claims[item] = claim
        return self

    def _word(self) -> str:
        return f"{self.random.getrandbits(64):016x}"

    def save(self) -> Any:
        """Return a backup."""
        return deepcopy((self.claims, self.lines, self.words, self.hidden))

    def restore(self, backup: Any) -> None:
        """Replace everything by a backup."""
        self.claims, self.lines, self.words, self.hidden = deepcopy(backup)

    def own_list(self) -> dict[str, tuple[str, int]]:
        """Return the item and the number of the state of each name."""
        return {
            fold_name(name): (claim.item, STATE_NUMBERS[claim.state])
            for claim in self.claims.values()
            if claim.state is not None
            for name in (*claim.identifiers, *claim.aliases)
        }

    def page(self, after: str = "", /, limit: int = 1000, **values: Any) -> bytes:
        """Return the page after a position.

        :param values: parts of the page that are replaced.
        """
        number, last, word, epoch = (*after.split("-"), "", "", "", "")[:4]
        if not last.isdecimal() or dict(enumerate(self.words)).get(int(last)) != word:
            after, number, epoch = "", "0", self._word()
        start = int(number)
        found = [one for one in self.lines.values() if one[0] > start]
        end = found[:limit][-1][0] if found else start
        page = Page(
            **{
                "archive": self.service,
                "epoch": epoch,
                "after": after,
                "position": f"{end}-{len(self.words) - 1}-{self.words[-1]}-{epoch}",
                "more": len(found) > limit,
                "time": format_timestamp(self.clock()),
                "hidden": self.hidden,
                "claims": tuple(line for _, line in found[:limit]),
                **values,
            }
        )
        return format_page(page, self.key)

    def answer(self, target: str, head: str = "") -> bytes | None:
        """Answer a request: a function for the servers of archive_servers.py."""
        query = parse_qs(urlsplit(target).query)
        newest = self.words[-1]
        etag = f'"{sha256(newest.encode()).hexdigest()[:16]}"'
        if re.search(f"^if-none-match: {etag}\r?$", head, re.IGNORECASE | re.MULTILINE):
            return http(status="304 NOT MODIFIED", content_type=None, ETag=etag)
        body = self.page(query.get("after", [""])[0], int(query["limit"][0]))
        return http(gzip.compress(body, 1), ETag=etag, Content_Encoding="gzip")


def follow_row(database: Database, archive: ClaimingArchive, address: str = "a.br") -> int:
    """Include an Archive and pin its key, and return its id."""
    with database.writing() as connection:
        archive_id: int = connection.scalars(
            insert(RegisteredArchive).returning(RegisteredArchive.id),
            {
                "service_ibi": archive.service, "key_hash": "hash", "registered_at": NOON,
                "address": address, "ip": "127.0.0.1", "platform_version": "1",
                "admin_email": "a@a.br", "included_at": NOON,
            },
        ).one()  # fmt: skip
        row = {"archive_id": archive_id, "key": archive.public_key, "pinned_at": NOON}
        connection.execute(insert(FollowedArchive), row)
    return archive_id


def rows_of(database: Database, table: Any) -> list[Any]:
    """Return all rows of a table in the order of the key."""
    columns: Iterable[Any] = table.__table__.columns
    return list(database.read_rows(select(*columns).order_by(*table.__table__.primary_key)))


def utc_now() -> datetime:
    """Return the present time."""
    return datetime.now(timezone.utc)


#: When the first claims were read.
FIRST = datetime(2026, 1, 1, tzinfo=timezone.utc)


def store_claims(
    database: Database,
    claims: Mapping[int, Sequence[Claim] | Mapping[str, State]],
    hidden: Mapping[str, int] | None = None,
    original_archive: str | None = None,
    since: datetime = FIRST,
) -> None:
    """Store claims of Archives as if they had been read to the end just now.

    :param claims: the claims by the id of the Archive, or the state for each name: then each name
        is an item of its own.
    :param hidden: who has hidden items with prefixes.
    :param original_archive: the service IBI of the Archive that claims of Copies and of removals
        name.
    """
    now = datetime.now(timezone.utc)
    with database.writing() as connection:
        for archive_id, stated in claims.items():
            is_its = FollowedArchive.archive_id == archive_id
            connection.execute(delete(FollowedArchive).where(is_its))
            followed = {"key": "key", "pinned_at": now, "epoch": "e", "read_at": now}
            connection.execute(insert(FollowedArchive).values(archive_id=archive_id, **followed))
            if isinstance(stated, Mapping):
                stated = [_name_item(*item, original_archive) for item in stated.items()]
            rows = [
                {
                    "name": fold_name(name), "archive_id": archive_id, "reading": 1,
                    "item": claim.item, "kind": kind, "state": STATE_NUMBERS[claim.state],
                    "timestamp": claim.timestamp, "original_archive": claim.original_archive,
                    "since": since,
                }
                for claim in stated
                if claim.state is not None
                for kind, names in ((1, [claim.rep]), (2, [claim.ibip]), (3, claim.aliases))
                for name in names
                if name is not None
            ]  # fmt: skip
            if rows:
                connection.execute(insert(ClaimedName), rows)
        for prefix, archive_id in (hidden or {}).items():
            row = {"prefix": prefix, "archive_id": archive_id, "is_hidden": True}
            connection.execute(insert(PrefixHolder), row)
        bump_version(connection, claims)


def _name_item(name: str, state: State, original_archive: str | None) -> Claim:
    identifier = match_identifier(name)
    is_rep = identifier is not None and identifier.form is Form.REP
    return Claim(
        fold_name(name)[:255],
        name if is_rep else None,
        name if identifier is not None and not is_rep else None,
        state,
        "2026-01-01T00:00:00Z",
        None if state is State.ORIGINAL else original_archive,
        (name,) if identifier is None else (),
    )
