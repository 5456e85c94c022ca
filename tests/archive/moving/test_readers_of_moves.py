"""Readers find an item at every moment of its move, at the resolver and at the giver's host."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import requests
from support.archives import import_records
from support.claiming import rows_of
from support.clocks import Clock
from support.loopback import PATIENCE, serving
from support.moves import SERVICES, Place, item, open_place, rep
from support.pages import Page
from support.registries import CHEAP, KEY
from support.resolving import app_over, resolver_of

from flask_ibi_archive.core.records import offer_messages as messages
from flask_ibi_archive.resolver import resolving
from flask_ibi_archive.resolver.claims import Follower
from flask_ibi_archive.resolver.tables import ClaimedName

#: The path of the resolver's service.
RESOLVER = "/J8LNKB5R7W/3FUQHC5"
#: The beginnings of the paths at which servers send messages to each other.
MESSAGES = ("/ibi/offers/", "/ibi/claims")


class Federation:
    """A resolver, a giver and a taker on servers, and a reader.

    Before and after each message of an offer, and each page of claims, the reader requests all
    items, and follows the redirects.

    :param claims: whether the Archives publish claims.
    :param names_resolver: whether the base of persistent URLs is the resolver. Otherwise each
        Archive is the base of its own.
    :ivar stale: an Archive whose claims are said to be those that were read last.
    :ivar wrong: what the reader did not find.
    """

    def __init__(self, stack: ExitStack, folder: Path, claims: bool, names_resolver: bool) -> None:
        self.stale: Place | None = None
        self.names: list[str] = []
        self.wrong: list[str] = []
        self.steps = 0
        uri = f"sqlite:///{folder / 'resolver.sqlite'}"
        app = stack.enter_context(app_over([], folder, IBI_RESOLVER_DATABASE_URI=uri))
        self.address = stack.enter_context(serving(app))
        resolver = resolver_of(app)
        resolver.registry.cost = CHEAP
        self.database = resolver.database
        config = {
            "IBI_CLAIMS": claims,
            "IBI_RESOLVER_URL": f"http://{self.address}{RESOLVER}",
            "IBI_REGISTRATION_KEY": KEY,
            "IBI_ARCHIVE_ADMIN_EMAIL": "library@example.org",
        }
        if names_resolver:
            config["IBI_PERSISTENT_URL_BASE"] = f"http://{self.address}"
        self.places: list[Place] = []
        for number, service in SERVICES.items():
            opened = open_place("sqlite", folder / str(number), number, **config)
            place = stack.enter_context(opened)
            self.places.append(place)
            self._watch(place)
            resolver.registry.register(service, KEY)
            for words in ("init", "register-archive"):  # init makes the key of the claims
                assert place.run(words).status == 0
        self.giver, self.taker = self.places
        self.clock = Clock(self.giver.archive.clock())
        self.follower = Follower(resolver.config, resolver.database, now=self.clock)
        stack.callback(self.follower.close)

    def _watch(self, place: Place) -> None:
        """Let the reader read before and after each message to an Archive."""
        answer: Any = place.app.wsgi_app

        def answer_and_read(environ: dict[str, Any], start_response: Any) -> Any:
            if not environ["PATH_INFO"].startswith(MESSAGES):
                return answer(environ, start_response)
            if place is self.stale and "HTTP_IF_NONE_MATCH" in environ:
                start_response("304 Not Modified", [])
                return []
            self.read()
            body = answer(environ, start_response)
            self.read()
            return body

        place.app.wsgi_app = answer_and_read  # type: ignore[method-assign]

    def read(self) -> None:
        """Request the items."""
        self.steps += 1
        for name in self.names:
            for address in (self.address, self.giver.address):
                url = f"http://{address}/{name}"
                last = requests.get(url, timeout=PATIENCE)
                if {answer.status_code for answer in last.history} != {302} or not last.ok:
                    self.wrong.append(f"{self.steps}: {url} leads to {last.url}: {last.text}")
            page = requests.get(f"http://{self.giver.address}/col/{name}/", timeout=PATIENCE)
            if not page.ok and f"/{name}" not in Page(page.text).links[1]:
                self.wrong.append(f"{self.steps}: {page.url} {page.text}")

    def follow(self, stale: Place | None = None) -> None:
        """Read the claims that are due after a while."""
        self.stale = stale
        self.clock.wait(40)
        assert self.follower.run_once()


@pytest.mark.slow
@pytest.mark.rule("MV-3")
@pytest.mark.parametrize("leave", ["tombstone", "copy"])
@pytest.mark.parametrize("claims", [True, False])
def test_a_reader_finds_an_item_at_every_moment_of_its_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leave: str, claims: bool
) -> None:
    monkeypatch.setattr(messages, "MAX_ITEMS", 1)
    monkeypatch.setattr(resolving, "GRACE", PATIENCE, raising=False)
    with ExitStack() as stack:
        world = Federation(stack, tmp_path, claims, names_resolver=claims)
        giver, taker = world.giver, world.taker
        import_records(giver.archive, [item(number) for number in range(1, 5)])
        world.follow()
        assert bool(rows_of(world.database, ClaimedName)) is claims
        for names, first in (([rep(1), rep(2)], giver), ([rep(3), rep(4)], taker)):
            world.names = names
            address = giver.offer(taker, *names, "--leave", leave)
            assert taker.accept(address).status == 0
            world.read()
            # the new claims of one of the two are read before those of the other
            for stale in (giver if first is taker else taker, None):
                world.follow(stale)
                world.read()
        assert world.wrong == []
        assert world.steps > 20
        assert set(taker.states().values()) == {"Original"}
