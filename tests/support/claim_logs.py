"""The log of an Archive's claims in memory, with a real server; it can misbehave."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from copy import copy
from time import time
from typing import Any

from flask_ibi_archive.core.claims.checkpoint import Checkpoint
from flask_ibi_archive.core.claims.claim import Claim, format_claim
from flask_ibi_archive.core.claims.keys import SigningKey
from flask_ibi_archive.core.claims.merkle import compute_root, hash_children, hash_leaf
from flask_ibi_archive.core.claims.tiles import (
    HEIGHT,
    WIDTH,
    encode_entries,
    find_width,
    parse_tile_path,
)
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.resolver.asking import TransferResult
from flask_ibi_archive.resolver.old_claims.log_reader import Fetch, KnownLog, Reading, read_log
from support.archive_servers import http
from support.registries import SERVICE

#: The path of the log on the server of an Archive.
ROOT = "/ibi/claims/"
#: The age in seconds at which an Archive signs its checkpoint again.
SIGNED_AGAIN = 60

#: What is sent in place of a file: its content; by a server, also the HTTP answer that a function
#: returns; without sockets, also the result of a transfer.
Replacement = Any


def a_claim(
    number: int = 0, state: State = State.ORIGINAL, *, place: str = "a.br/items", **values: object
) -> Claim:
    """Return a claim of an item; each number is another item.

    :param place: the prefix of the identifier.
    """
    rest, minute = divmod(number, 60)
    rest, hour = divmod(rest, 24)
    rest, day = divmod(rest, 28)
    year, month = divmod(rest, 12)
    rep = f"{place}/{2001 + year}/{month + 1:02}.{day + 1:02}.{hour:02}.{minute:02}"
    if state is State.COPY:
        values.setdefault("original_archive", "b.br/service/2001/01.01.00.00")
    return Claim(rep, None, state, "2026-03-01T12:00:00Z", **values)  # type: ignore[arg-type]


class ClaimLog:
    """A log that is signed for real.

    :param origin: the name of the log and of its key.
    :param seed: the private key.
    :param clock: returns the time in POSIX seconds, which the signatures contain.
    :ivar signer: the key that signs. A test may replace it by another one.
    :ivar replaced: what the server sends in place of a file, by the path below ``/ibi/claims/``.
    :ivar asked: the paths of all requests.
    :ivar queries: the query strings of all requests to a server.
    """

    def __init__(
        self,
        origin: str = SERVICE,
        seed: bytes = bytes(32),
        clock: Callable[[], float] = time,
    ) -> None:
        self.origin = origin
        self.signer = SigningKey(origin, seed)
        self.clock = clock
        self.entries: list[bytes] = []
        #: The hashes of the full subtrees of each level.
        self.levels: list[list[bytes]] = [[]]
        self.replaced: dict[str, Replacement] = {}
        self.asked: list[str] = []
        self.queries: set[str] = set()
        self._signed: tuple[SigningKey, bytes, float, str] | None = None

    @property
    def size(self) -> int:
        """The number of entries."""
        return len(self.entries)

    def add(self, *claims: Claim | bytes) -> ClaimLog:
        """Add entries, and return the log."""
        for claim in claims:
            entry = claim if isinstance(claim, bytes) else format_claim(claim)
            self.entries.append(entry)
            self._add_hash(hash_leaf(entry))
        return self

    def _add_hash(self, leaf: bytes) -> None:
        for level in range(len(self.levels) + 1):
            if level == len(self.levels):
                self.levels.append([])
            self.levels[level].append(leaf)
            if len(self.levels[level]) % 2:
                return
            leaf = hash_children(*self.levels[level][-2:])

    def fork(self, size: int) -> ClaimLog:
        """Return another log of the same key, which has only the first entries in common."""
        other = copy(self)
        other.entries, other.levels, other._signed = [], [[]], None
        other.replaced, other.asked, other.queries = {}, [], set()
        return other.add(*self.entries[:size])

    def root(self, size: int | None = None) -> bytes:
        """Return the root of the tree, or that of an earlier tree."""
        return compute_root(self.size if size is None else size, self.read_hash)

    def read_hash(self, level: int, index: int) -> bytes:
        """Return the hash of a full subtree."""
        return self.levels[level][index]

    def sign(self, size: int | None = None, seconds: float | None = None) -> str:
        """Return a signed checkpoint.

        :param size: the number of entries; all if it is None.
        :param seconds: the time of the signature; now if it is None.
        """
        size = self.size if size is None else size
        checkpoint = Checkpoint(self.origin, size, self.root(size))
        return checkpoint.sign(self.signer, int(self.clock() if seconds is None else seconds))

    def checkpoint(self) -> str:
        """Return the checkpoint as an Archive sends it: it is signed again when it is old."""
        now = self.clock()
        if (
            self._signed is None
            or self._signed[:2] != (self.signer, self.root())
            or now - self._signed[2] >= SIGNED_AGAIN
        ):
            self._signed = self.signer, self.root(), now, self.sign()
        return self._signed[3]

    def find(self, path: str) -> bytes | None:
        """Return the content of a file; None if there is no such file.

        :param path: the path below ``/ibi/claims/``.
        """
        if path == "key":
            return self.signer.verifier.format().encode()
        if path == "checkpoint":
            return self.checkpoint().encode()
        tile = parse_tile_path(path)
        if tile is None or find_width(tile.level, tile.number, self.size) < tile.width:
            return None
        part = slice(tile.number * WIDTH, tile.number * WIDTH + tile.width)
        if tile.level is None:
            return encode_entries(self.entries[part])
        return b"".join(self.levels[tile.level * HEIGHT][part])

    def answer(self, target: str, head: str = "") -> bytes | None:
        """Return the answer to a request: a function for the servers of archive_servers.py."""
        path, _, query = target.removeprefix(ROOT).partition("?")
        self.asked.append(path)
        self.queries.add(query)
        content = self.replaced[path] if path in self.replaced else self.find(path)
        if callable(content):
            return content()
        if content is None or not target.startswith(ROOT):
            return http("there is no such file", "404 NOT FOUND")
        etag = f'"{hash_leaf(content).hex()}"'
        if re.search(f"^if-none-match: {etag}\r?$", head, re.IGNORECASE | re.MULTILINE):
            return http(status="304 NOT MODIFIED", content_type=None, ETag=etag)
        return http(content, content_type="application/octet-stream", ETag=etag)


def a_log(*claims: Claim | bytes, size: int = 0, **options: object) -> ClaimLog:
    """Return a log with some claims, or with claims of ``size`` different items."""
    log = ClaimLog(**options)  # type: ignore[arg-type]
    return log.add(*claims, *map(a_claim, range(size)))


def serving_last(logs: list[ClaimLog]) -> Callable[[str, str], bytes | None]:
    """Return a function for a server that answers with the last log of a list."""
    return lambda target, head: logs[-1].answer(target, head)


def garble(data: bytes, position: int = -1) -> bytes:
    """Return data in which one bit is wrong."""
    changed = bytearray(data)
    changed[position] ^= 1
    return bytes(changed)


def reorder(entries: Iterable[bytes]) -> list[bytes]:
    """Return entries of which the first two have changed places."""
    first, second, *rest = entries
    return [second, first, *rest]


def read_once(log: ClaimLog, known: KnownLog | None = None, **options: Any) -> Reading:
    """Read a log without sockets, as the follower of a resolver does.

    :param known: what is known of the log; only its key if it is None.
    :param options: parameters of :func:`.log_reader.read_log`.
    """
    known = known or KnownLog(log.signer.verifier)
    reading = read_log(
        known, options.pop("now", float(log.clock())), options.pop("max_age", 300), **options
    )
    results: Any = None
    while True:
        try:
            fetches = reading.send(results)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        results = [_transfer(log, fetch) for fetch in fetches]


def _transfer(log: ClaimLog, fetch: Fetch) -> TransferResult:
    content = log.replaced.get(fetch.path, log.find(fetch.path))
    log.asked.append(fetch.path)
    if isinstance(content, TransferResult):
        return content
    if content is None:
        return TransferResult(404)
    etag = f'"{hash_leaf(content).hex()}"'
    return (
        TransferResult(304) if fetch.etag == etag else TransferResult(200, body=content, etag=etag)
    )


def learn(known: KnownLog, reading: Reading) -> KnownLog:
    """Return what is known of a log after it was read."""
    return KnownLog(
        known.key,
        reading.state,
        reading.reason,
        reading.frontier,
        reading.checkpoint,
        reading.etag,
        reading.signed_at,
        reading.length,
    )


def know(log: ClaimLog, **options: Any) -> KnownLog:
    """Return what is known after a log was read to its end."""
    known = KnownLog(log.signer.verifier)
    while True:
        reading = read_once(log, known, **options)
        known = learn(known, reading)
        if reading.is_complete:
            return known
