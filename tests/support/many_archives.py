"""Fifty Archives on loopback: half of them are good, the others are dead, hanging or hostile.

A dead Archive accepts no connection, a hanging one never answers, and a hostile one returns wrong
or dangerous answers. The expected outcome of each resolution is known by construction.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count

from flask_ibi_archive.core.protocol.messages import (
    Acknowledgment,
    UrlRequest,
    build_response,
    parse_request,
)
from flask_ibi_archive.core.protocol.pairs import decode_query_string
from flask_ibi_archive.core.protocol.url_list import UrlPair, answer_url_request
from support.archive_servers import AND_SO_ON, THE_END, Server, Servers, hangs, http, servers
from support.loopback import nobody
from support.stores import Json, MemoryCatalogue, make_facts

GOOD, DEAD, HANGING, HOSTILE = 25, 10, 10, 5
#: The number of items of each kind.
ITEMS = 8
URL_KEY = "1234567890-1234567890"
HOSTILE_KEY = "1234567890-6666666666"
REQUIRED = "?ibiurl.requireditemstatus=Original"


def rep_of(number: int) -> str:
    """Return the repository name of an item."""
    return f"a.br/many/2001/01.01.{number // 60:02}.{number % 60:02}"


def service_of(number: int) -> str:
    """Return the IBI of an Archive's service."""
    return f"a.br/service/2000/01.01.00.{number:02}"


@dataclass(frozen=True, slots=True)
class Case:
    """A persistent URL and its expected outcome.

    :param urls: the URLs to which it may be redirected; empty if an alert is expected.
    :param suspects: the addresses of the Archives that both claim the Original, if this alert is
        expected.
    """

    kind: str
    persistent_url: str
    urls: frozenset[str] = frozenset()
    suspects: frozenset[str] = frozenset()


class GoodArchive:
    """A good Archive, which stores its answers and the acknowledgments that it receives."""

    def __init__(self, all_servers: Servers, service: str) -> None:
        self.server = all_servers.add(self, keeps_requests=False)
        self.address = self.server.address
        self.service = service
        self.records: list[Json] = []
        self.thanks: list[Acknowledgment] = []
        self._answers: dict[str, bytes] = {}

    def open(self) -> None:
        """Create the Archive with its records."""
        self._world = MemoryCatalogue(self.records)
        self._facts = make_facts(self.address, self.service, None)

    def __call__(self, target: str, head: str) -> bytes:
        """Answer a request."""
        path, _, query = target.partition("?")
        if path != f"/{self.service}":
            return http("alert {no such path}", "404 Not Found")
        if query not in self._answers:
            request = parse_request(decode_query_string(query.encode()))
            answer = http(build_response(request, self._list_urls, self.thanks.append))
            if isinstance(request, Acknowledgment):
                return answer
            self._answers[query] = answer
        return self._answers[query]

    def _list_urls(self, asked: UrlRequest) -> list[UrlPair]:
        return answer_url_request(self._world, asked, self._facts, lambda item: URL_KEY)


# --- hostile Archives ----------------------------------------------------------------------------


def tricks(own: str, forbidden: str) -> list[list[bytes]]:
    """Return the answers of five kinds of hostile Archives.

    The answers of the first three kinds are failures, so that these Archives are skipped for a
    while. The answers of the last two kinds are valid lists of pairs.

    :param own: the Archive's own address.
    :param forbidden: the address of a server to which no request may be sent.
    """

    def claim(url: str) -> bytes:
        text = f"contenttype Data\r\nstate Original\r\nurl {url}\r\nurlkey {HOSTILE_KEY}"
        return http(text.encode("latin-1"))

    trap = claim(f"http://{own}/trap")
    head, _, body = trap.partition(b"\r\n\r\n")
    endless = [
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nstate Original a bc " + AND_SO_ON,
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nX: y\r\nX:y\r\n" + AND_SO_ON,
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n" + body + AND_SO_ON,
    ]
    wrong = [
        trap.replace(b"text/plain", b"text/html"),
        http(body, Content_Encoding="gzip"),
        http(body, "500 No"),
        http(body + b"\r\nstate"),
        head + b"\r\n\r\n" + body[:10] + THE_END,
        b"HTTP/1.1 200 OK\r\nContent-T" + THE_END,
        body + THE_END,
        THE_END,
    ]
    redirects = [
        http(body, "302 Found", Location=f"http://{forbidden}/"),
        http(body, "301 Moved", Location=f"//{forbidden}/"),
        http(body, "307 There", Location="file:///etc/passwd"),
        http(body, "404 No", Refresh=f"0; url=http://{forbidden}/"),
    ]
    bad_urls = [
        claim("javascript:alert(1)"),
        claim("data:text/html,<script>alert(1)</script>"),
        claim("file:///etc/passwd"),
        claim("http://127.0.0.2/internal"),
        claim(f"http://a:b@{own}/"),
        claim(f"http://{own}@{forbidden}/"),
        claim("http://localhost/"),
        claim("http://10.0.0.1/"),
        claim("http://[::1]/"),
        claim("http://2130706433/"),
        claim("http://a.br:99999/"),
        claim("http://a..br/"),
    ]
    injections = [
        claim(f"{{http://{own}/a\r\nSet-Cookie: a=b}}"),
        claim(f"http://{own}/a\x01\x7fLocation:"),
        claim("{}"),
        *(http(f"ibi.nextedition {{rep a.br/junk/2001/01.01.01.{n:02}}}") for n in range(6)),
        http(f"state Original\r\nurlkey {HOSTILE_KEY}"),
        http(f"alert {{a}}\r\nurl.x http://{forbidden}/", Refresh=f"0; url=http://{forbidden}/"),
    ]
    return [endless, wrong, redirects, bad_urls, injections]


class HostileArchive:
    """A hostile Archive, which returns the answers of a kind in turn and claims some Originals."""

    def __init__(self, all_servers: Servers, forbidden: str, kind: int) -> None:
        self.server = all_servers.add(self)
        self.address = self.server.address
        self.claimed: set[str] = set()
        self._tricks = tricks(self.address, forbidden)[kind]
        self._turns = count()
        self._claim = http(
            f"state Original\r\nurl http://{self.address}/trap\r\nurlkey {HOSTILE_KEY}"
        )

    def __call__(self, target: str, head: str) -> bytes:
        """Answer a request."""
        if any(rep in target for rep in self.claimed):
            return self._claim
        return self._tricks[next(self._turns) % len(self._tricks)]


@dataclass(frozen=True)
class ManyArchives:
    """The Archives and the persistent URLs that can be resolved with them.

    :param forbidden: a server to which no request may be sent; hostile answers contain its address.
    :param included: the service IBI and the address of each Archive, in a random order.
    """

    good: Sequence[GoodArchive]
    hostile: Sequence[HostileArchive]
    hanging: Sequence[Server]
    forbidden: Server
    included: Sequence[tuple[str, str]]
    cases: Sequence[Case]


# --- items in the Archives -----------------------------------------------------------------------


class Maker:
    """Puts items into random Archives, and collects the cases."""

    def __init__(self, chance: random.Random, archives: Sequence[GoodArchive], host: str) -> None:
        self.chance = chance
        self.archives = archives
        self.host = host
        self.numbers = count()
        self.cases: list[Case] = []

    def some(self, number: int) -> list[GoodArchive]:
        """Return some different Archives."""
        return self.chance.sample(self.archives, number)

    def put(self, archive: GoodArchive, rep: str, **fields: object) -> str:
        """Put an item into an Archive and return the URL of its file."""
        archive.records.append({"rep": rep, "files": [{"path": "a.txt"}], **fields})
        return f"http://{archive.address}/col/{rep}/doc/a.txt"

    def expect(self, kind: str, what: str, *urls: str, suspects: Sequence[str] = ()) -> None:
        """Add a persistent URL with its expected outcome."""
        url = f"{self.host}/{what}"
        self.cases.append(Case(kind, url, frozenset(urls), frozenset(suspects)))

    def new(self) -> str:
        """Return an identifier that is not used."""
        return rep_of(next(self.numbers))

    def plain(self) -> None:
        """Add an item of one Archive."""
        (archive,), rep = self.some(1), self.new()
        self.expect("plain", rep, self.put(archive, rep))

    def edition(self) -> None:
        """Add an item whose last edition is in another Archive."""
        (first, last), rep, newer = self.some(2), self.new(), self.new()
        self.put(first, rep, next_edition=newer)
        self.expect("last edition", f"{rep}!", self.put(last, newer))

    def copy(self) -> None:
        """Add an item with Copies in other Archives."""
        (home, *others), rep = self.some(3), self.new()
        original = self.put(home, rep)
        copies = [self.put(one, rep, state="Copy", original_archive=home.service) for one in others]
        self.expect("copies", rep, original, *copies)
        self.expect("Original", f"{rep}{REQUIRED}", original)

    def contested(self, rival: HostileArchive) -> None:
        """Add an item whose Original a hostile Archive claims too."""
        (home,), rep = self.some(1), self.new()
        self.put(home, rep)
        rival.claimed.add(rep)
        self.expect("suspicion", f"{rep}{REQUIRED}", suspects=[home.address, rival.address])

    def unknown(self) -> None:
        """Add an identifier that no Archive knows."""
        self.expect("unknown", self.new())


@contextmanager
def many_archives(seed: int, host: str = "http://urlib.net") -> Iterator[ManyArchives]:
    """Yield fifty Archives that share items."""
    chance = random.Random(seed)
    with ExitStack() as stack:
        all_servers = stack.enter_context(servers())
        forbidden = all_servers.add(hangs)
        good = [GoodArchive(all_servers, service_of(number)) for number in range(GOOD)]
        hostile = [HostileArchive(all_servers, forbidden.address, kind) for kind in range(HOSTILE)]
        hanging = [all_servers.add(hangs) for _ in range(HANGING)]
        dead = [stack.enter_context(nobody()) for _ in range(DEAD)]
        maker = Maker(chance, good, host)
        for number in range(ITEMS):
            maker.plain()
            maker.edition()
            maker.copy()
            maker.contested(hostile[3 + number % 2])
        maker.unknown()
        for archive in good:
            archive.open()
        others = [one.address for one in hostile] + [one.address for one in hanging] + dead
        included = [(one.service, one.address) for one in good]
        included += [(service_of(GOOD + number), one) for number, one in enumerate(others)]
        chance.shuffle(included)
        yield ManyArchives(good, hostile, hanging, forbidden, included, maker.cases)
