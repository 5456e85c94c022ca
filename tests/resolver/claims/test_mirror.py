"""A mirror takes over the signed list of another resolver, and gives the same answers."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import insert, select
from support.archive_servers import Servers
from support.claim_logs import ROOT, ClaimLog, a_claim
from support.commands import Outcome, command
from support.loopback import PATIENCE, serving
from support.registries import KEY, a_registry, a_request
from support.resolving import (
    ORIGINAL,
    Table,
    TableArchive,
    X,
    Y,
    Z,
    app_over,
    leads,
    resolver_of,
    wants,
)

from flask_ibi_archive.core.claims.archive_list import format_archives, open_list, sign_list
from flask_ibi_archive.core.claims.claim import Claim, name_key
from flask_ibi_archive.core.claims.keys import SigningKey
from flask_ibi_archive.core.protocol.inclusion import EXCLUSION_REQUEST
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.resolution.outcome import Redirect
from flask_ibi_archive.errors import AlreadyRegistered, RegistrationRefused
from flask_ibi_archive.resolver.claims.listed_archives import list_archives
from flask_ibi_archive.resolver.claims.mirror import find_first, refresh_mirror
from flask_ibi_archive.resolver.claims.pinning import pin_key
from flask_ibi_archive.resolver.claims.resolver_key import create_key
from flask_ibi_archive.resolver.claims.tables import FollowedLog, PinnedKey, ResolverState
from flask_ibi_archive.resolver.commands import ibi_resolver
from flask_ibi_archive.resolver.service import ResolverService
from flask_ibi_archive.resolver.tables import RegisteredArchive

NOON = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
HERE_URL, THERE_URL = "http://here.br/a.pdf", "http://there.br/b.pdf"
#: The states of the Archives at the mirror.
INCLUDED, EXCLUDED = "included", "excluded"


class ClaimingArchive(TableArchive):
    """An Archive on loopback that publishes claims."""

    def __init__(self, hosts: Servers, number: int, table: Table) -> None:
        super().__init__(hosts, number, table)
        self.log = ClaimLog(self.service, bytes([number]) * 32)

    def __call__(self, target: str, head: str) -> bytes | None:
        """Answer a request."""
        if target.startswith(ROOT):
            return self.log.answer(target, head)
        return super().__call__(target, head)


class World:
    """A first resolver with two Archives, served for real, and a mirror.

    :ivar send: replaces the list that the first resolver sends.
    """

    def __init__(self, stack: ExitStack, hosts: Servers, folder: Path, uri: str) -> None:
        tables: tuple[Table, ...] = (
            {X: leads(HERE_URL), Y: leads(HERE_URL)},
            {Y: leads(THERE_URL), Z: leads(THERE_URL, state="Copy")},
        )
        self.archives = [
            ClaimingArchive(hosts, number, table) for number, table in enumerate(tables, 1)
        ]
        self.first = stack.enter_context(app_over(self.archives, folder / "first"))
        self.key = create_key(resolver_of(self.first).config)
        self.send: Callable[[str], str] | None = None
        self.asked: list[dict[str, Any]] = []
        address = stack.enter_context(serving(self._answer))
        self.url = f"http://{address}"
        self.mirror = stack.enter_context(
            app_over([], folder / "mirror", IBI_RESOLVER_DATABASE_URI=uri)
        )

    def _answer(self, environ: dict[str, Any], start_response: Any) -> Any:
        self.asked.append(environ)
        if self.send is None or environ["PATH_INFO"] != "/ibi/archives":
            return self.first(environ, start_response)
        start_response("200 OK", [("Content-Type", "text/plain"), ("ETag", '"other"')])
        return [self.send(self.list()).encode()]

    def list(self) -> str:
        """Return the list of the first resolver."""
        return self.first.test_client().get("/ibi/archives").get_data(as_text=True)

    @property
    def service(self) -> ResolverService:
        """The resolver of the mirror."""
        return resolver_of(self.mirror)

    def run(self, *words: object) -> Outcome:
        """Run the command ``mirror`` at the mirror."""
        return command(self.mirror, "mirror", *words, group=ibi_resolver)

    def start(self) -> None:
        """Take over the list for the first time."""
        assert self.run(self.url, "--key", self.key.verifier.format()).lines == [
            "2 Archives, 2 of them changed"
        ]

    def states(self) -> dict[str, str]:
        """Return the states of the Archives at the mirror by their addresses."""
        rows = self.service.database.read_rows(
            select(
                RegisteredArchive.address,
                RegisteredArchive.included_at,
                RegisteredArchive.excluded_at,
            ).order_by(RegisteredArchive.id)
        )
        return {row.address: EXCLUDED if row.included_at is None else INCLUDED for row in rows}

    def version(self) -> int:
        """Return the version of the list of Archives at the mirror."""
        [[version]] = self.service.database.read_rows(select(ResolverState.version))
        return int(version)

    def pin(self, archive: TableArchive, key: SigningKey, now: datetime = NOON) -> None:
        """Pin the key of an Archive at the first resolver."""
        with resolver_of(self.first).database.writing() as connection:
            archive_id = connection.scalars(
                select(RegisteredArchive.id).where(RegisteredArchive.service_ibi == archive.service)
            ).one()
            pin_key(connection, archive_id, key.verifier, now)

    def exclude(self, archive: TableArchive) -> None:
        """Exclude an Archive at the first resolver."""
        a_registry(resolver_of(self.first).database).process(
            a_request(EXCLUSION_REQUEST, service_ibi=archive.service, address=archive.address)
        )


@pytest.fixture
def world(hosts: Servers, tmp_path: Path, uri: str) -> Iterator[World]:
    """A first resolver and a mirror."""
    with ExitStack() as stack:
        yield World(stack, hosts, tmp_path, uri)


def claim_of(ibi: str, state: State, *aliases: str) -> Claim:
    """Return a claim of an item."""
    original = "b.br/service/2001/01.01.00.00" if state is State.COPY else None
    return Claim(ibi, None, state, "2026-03-01T12:00:00Z", original, aliases)


def outcomes(app: Flask) -> list[object]:
    """Return what the resolver of an app answers to persistent URLs.

    Any of the Originals of Y is a right answer to the plain persistent URL.
    """
    resolver = resolver_of(app)
    urls = (X, Z, f"{X}{ORIGINAL}", f"{Y}{ORIGINAL}", f"{Z}{ORIGINAL}", f"{X}!", f"{X}:", "A2W/2")
    found: list[object] = []
    for url in urls:
        outcome = resolver.resolve(wants(url))
        if isinstance(outcome, Redirect):
            found.append((outcome.url, outcome.source, outcome.state))
        else:
            found.append((outcome.kind, outcome.ibi, set(outcome.sources)))
    return found


# --- the list at the first resolver --------------------------------------------------------------


def test_the_list_is_signed_and_says_nothing_about_administrators(world: World) -> None:
    response = world.first.test_client().get("/ibi/archives")
    assert response.content_type == "text/plain; charset=utf-8"
    text = response.get_data(as_text=True)
    listed = open_list(text, world.key.verifier)
    assert [one.address for one in listed.archives] == [one.address for one in world.archives]
    assert abs(datetime.now(timezone.utc) - listed.time) < timedelta(seconds=PATIENCE)
    assert "banon@" not in text


def test_the_etag_depends_on_the_archives_alone(world: World) -> None:
    client = world.first.test_client()
    first = client.get("/ibi/archives")
    tag = first.headers["ETag"]
    unchanged = client.get("/ibi/archives", headers={"If-None-Match": tag})
    assert (unchanged.status_code, unchanged.data) == (304, b"")
    world.pin(world.archives[0], SigningKey(world.archives[0].service, b"a" * 32))
    changed = client.get("/ibi/archives", headers={"If-None-Match": tag})
    assert changed.status_code == 200
    assert changed.headers["ETag"] != tag
    assert client.head("/ibi/archives").headers["ETag"] == changed.headers["ETag"]


def test_without_a_key_there_is_no_list(world: World) -> None:
    response = world.mirror.test_client().get("/ibi/archives")
    assert response.status_code == 404
    assert "flask ibi-resolver init" in response.get_data(as_text=True)


# --- taking over ---------------------------------------------------------------------------------


def test_a_mirror_gives_the_same_answers(world: World) -> None:
    assert outcomes(world.mirror) != outcomes(world.first)
    world.start()
    assert outcomes(world.mirror) == outcomes(world.first)
    for archive in world.archives:
        assert world.states()[archive.address] == INCLUDED
    # what is listed by the mirror is what the first lists
    with resolver_of(world.first).database.reading() as connection:
        expected = format_archives(list_archives(connection))
    with world.service.database.reading() as connection:
        assert format_archives(list_archives(connection)) == expected


def test_keys_and_their_history_are_taken_over(world: World) -> None:
    archive = world.archives[0]
    keys = [SigningKey(archive.service, bytes([number]) * 32) for number in range(3)]
    for number, key in enumerate(keys[:2]):
        world.pin(archive, key, NOON + timedelta(days=number))
    world.start()
    statement = select(FollowedLog.key, FollowedLog.pinned_at, FollowedLog.state)
    expected = (keys[1].verifier.format(), NOON + timedelta(days=1), "new")
    assert [tuple(row) for row in world.service.database.read_rows(statement)] == [expected]
    version = world.version()
    assert refresh_mirror(world.service) is None
    assert world.version() == version
    world.pin(archive, keys[2], NOON + timedelta(days=2))
    takeover = refresh_mirror(world.service)
    assert takeover is not None
    assert takeover.changed == 1
    assert world.version() == version + 1
    rows = world.service.database.read_rows(statement)
    assert rows[0].key == keys[2].verifier.format()
    with world.service.database.reading() as connection:
        [mirrored] = [one for one in list_archives(connection) if one.keys]
    assert mirrored.keys == tuple(
        (NOON + timedelta(days=number), key.verifier) for number, key in enumerate(keys)
    )


def test_a_mirror_follows_the_claims_itself(world: World, tmp_path: Path) -> None:
    first, second = world.archives
    first.log.add(*[claim_of(ibi, State.ORIGINAL, "doi:10.5281/a") for ibi in (X, Y)])
    second.log.add(claim_of(Y, State.ORIGINAL), claim_of(Z, State.COPY))
    second.log.add(*[a_claim(number) for number in range(300)])
    for archive in world.archives:
        world.pin(archive, archive.log.signer)
    world.start()
    found, maps = [], []
    for app in (world.first, world.mirror):
        resolver = resolver_of(app)
        follower = resolver.make_follower()
        assert follower.run_once()
        follower.close()
        names = (X, Y, Z, "doi:10.5281/A", a_claim(299).identifiers[0], a_claim(300).identifiers[0])
        with resolver.database.reading() as connection:
            services = {
                row.id: row.service_ibi
                for row in connection.execute(
                    select(RegisteredArchive.id, RegisteredArchive.service_ibi)
                )
            }
            holdings = resolver.claim_index.find(connection, [name_key(name) for name in names])
        found.append(
            {
                key: {(services[one.archive_id], one.state) for one in holders}
                for key, holders in holdings.items()
            }
        )
        path = tmp_path / app.instance_path / "map"
        assert command(app, "export-map", path, group=ibi_resolver).status == 0
        maps.append(path.read_text("utf-8"))
    assert found[0] == found[1]
    assert found[0][name_key(Y)] == {(first.service, 1), (second.service, 1)}
    assert len(found[0]) == 5
    assert maps[0] == maps[1]
    assert f"http://{first.address}/{X}" in maps[0]
    assert outcomes(world.mirror) == outcomes(world.first)


def test_the_list_is_taken_over_again_only_if_it_has_changed(world: World) -> None:
    world.start()
    version = world.version()
    world.asked.clear()
    assert refresh_mirror(world.service) is None
    assert world.version() == version
    [environ] = world.asked
    assert environ["HTTP_IF_NONE_MATCH"]
    first, second = world.archives
    world.exclude(first)
    assert refresh_mirror(world.service) is not None
    assert world.states() == {first.address: EXCLUDED, second.address: INCLUDED}
    assert world.version() == version + 1
    assert outcomes(world.mirror) == outcomes(world.first)
    # the Archive comes back with another address
    a_registry(resolver_of(world.first).database).process(
        a_request(service_ibi=first.service, address="new.example.org")
    )
    refresh_mirror(world.service)
    assert world.states() == {"new.example.org": INCLUDED, second.address: INCLUDED}


@pytest.mark.parametrize("kind", ["older", "false", "other key", "unsigned", "no list"])
def test_a_wrong_list_changes_nothing_and_is_reported(
    world: World, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    world.start()
    version, states = world.version(), world.states()
    before = world.service.database.read(find_first)
    other = SigningKey(world.key.name, b"o" * 32)
    old = datetime(2026, 1, 1, tzinfo=timezone.utc)
    world.send = {
        "older": lambda text: sign_list("", old, world.key),
        "false": lambda text: text.replace(world.archives[0].address, "evil.example.org"),
        "other key": lambda text: sign_list("", datetime.now(timezone.utc), other),
        "unsigned": lambda text: text.partition("\n\n")[0],
        "no list": lambda text: "<html>",
    }[kind]
    assert refresh_mirror(world.service) is None
    assert (world.version(), world.states()) == (version, states)
    assert world.service.database.read(find_first) == before
    [record] = caplog.records
    assert "/ibi/archives" in record.getMessage()
    assert ("older" in record.getMessage()) == (kind == "older")
    # the right list is taken over afterwards
    world.send = None
    world.exclude(world.archives[0])
    assert refresh_mirror(world.service) is not None


def test_a_first_resolver_that_is_down_changes_nothing(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.start()
    with world.service.database.writing() as connection:
        connection.exec_driver_sql("UPDATE ibi_resolver_mirrored SET url = 'http://127.0.0.1:9'")
    expected = outcomes(world.first)
    assert refresh_mirror(world.service) is None
    assert "127.0.0.1:9" in caplog.text
    assert outcomes(world.mirror) == expected


def test_archives_that_registered_with_the_mirror_belong_to_it(world: World) -> None:
    first, second = world.archives
    registry = a_registry(world.service.database)
    registry.register(first.service, KEY)
    registry.process(a_request(service_ibi=first.service, address="own.example.org"))
    registry.register("a.br/own/2001/01.01.00.00", KEY)
    assert world.run(world.url, "--accept-key").out == "2 Archives, 1 of them changed\n"
    assert world.states() == {"own.example.org": INCLUDED, None: EXCLUDED, second.address: INCLUDED}
    world.exclude(first)
    world.exclude(second)
    refresh_mirror(world.service)
    assert world.states() == {"own.example.org": INCLUDED, None: EXCLUDED, second.address: EXCLUDED}


def test_no_registration_key_opens_a_mirrored_row(world: World) -> None:
    world.start()
    registry = a_registry(world.service.database)
    service = world.archives[0].service
    for key in (KEY, "0000000000"):
        with pytest.raises(RegistrationRefused):
            registry.process(a_request(EXCLUSION_REQUEST, service_ibi=service, key=key))
    with pytest.raises(AlreadyRegistered):
        registry.register(service, KEY)
    # the operator of the mirror may take the Archive over into its own list
    registry.register(service, KEY, replace=True)
    world.exclude(world.archives[0])
    refresh_mirror(world.service)
    assert world.states()[world.archives[0].address] == INCLUDED


def test_the_key_must_be_confirmed(world: World) -> None:
    published = world.first.test_client().get("/ibi/claims/witness/key").text.strip()
    outcome = world.run(world.url)
    assert outcome.status == 1
    assert published in outcome.err.splitlines()
    assert "add --accept-key" in outcome.err
    assert world.states() == {}
    accepted = world.run(world.url, "--accept-key")
    assert accepted.out == "2 Archives, 2 of them changed\n"
    lines = [f"url\t{world.url}", f"key\t{published}"]
    assert world.run().lines[:2] == lines


def test_a_wrong_key_takes_over_nothing(world: World) -> None:
    other = SigningKey(world.key.name, b"o" * 32).verifier.format()
    assert "not signed by" in world.run(world.url, "--key", other).error
    assert "Ed25519" in world.run(world.url, "--key", "no key").usage
    assert "is not an address" in world.run("urlib.net").usage
    assert world.states() == {}
    assert world.run().data == ""


def test_a_resolver_is_no_mirror_of_itself(world: World) -> None:
    # the mirror has the key of the resolver at this address
    shutil.copytree(
        resolver_of(world.first).config.claims_folder, world.service.config.claims_folder
    )
    key = world.key.verifier.format()
    assert "is this resolver itself" in world.run(world.url, "--key", key).error
    assert world.states() == {}
    assert world.run().data == ""


def test_after_a_stop_the_archives_remain(world: World) -> None:
    world.start()
    states = world.states()
    assert world.run("--stop").data == ""
    world.exclude(world.archives[0])
    assert refresh_mirror(world.service) is None
    assert world.states() == states
    assert world.run().data == ""


def test_a_key_with_a_name_that_its_archive_has_lost_does_not_stop_a_mirror(world: World) -> None:
    """The list contains all keys of an Archive, also that of a log that now is another's."""
    loser, owner = sorted(world.archives, key=lambda archive: archive.service)
    first = resolver_of(world.first).database
    [[archive_id]] = first.read_rows(
        select(RegisteredArchive.id).where(RegisteredArchive.service_ibi == loser.service)
    )
    lost = SigningKey(owner.service, b"a" * 32).verifier.format()
    with first.writing() as connection:
        connection.execute(
            insert(PinnedKey).values(archive_id=archive_id, pinned_at=NOON, key=lost)
        )
    world.pin(owner, owner.log.signer)
    world.start()
    rows = world.service.database.read_rows(
        select(RegisteredArchive.service_ibi, FollowedLog.key).join(
            FollowedLog, FollowedLog.archive_id == RegisteredArchive.id
        )
    )
    assert [tuple(row) for row in rows] == [(owner.service, owner.log.signer.verifier.format())]
