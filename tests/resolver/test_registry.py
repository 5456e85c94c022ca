"""A resolver's registry: who is registered, and what comes of inclusion and exclusion requests."""

from __future__ import annotations

import logging
import socket
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from threading import Barrier, Event
from typing import Any

import pytest
from support.archive_servers import Servers, http, says
from support.loopback import nobody, raw, sends
from support.registries import (
    CHEAP,
    KEY,
    NOON,
    SERVICE,
    Calls,
    a_config,
    a_registry,
    a_request,
    confirms,
    resolver_database,
)

from flask_ibi_archive.archive.transport import HttpResponse, fetch
from flask_ibi_archive.errors import (
    AlreadyRegistered,
    IdentifierError,
    InternalArchive,
    RegistrationError,
    RegistrationOvertaken,
    RegistrationRefused,
    TransportError,
    UnknownArchive,
)
from flask_ibi_archive.protocol.inclusion import (
    EXCLUSION_REQUEST,
    RegistrationStatus,
    format_registration_status,
)
from flask_ibi_archive.resolver.hints import remember_hints
from flask_ibi_archive.resolver.key_hashes import hash_key, is_key_of
from flask_ibi_archive.resolver.registrations import RegisteredRecord, find_key
from flask_ibi_archive.resolver.registry import (
    EXCLUDED,
    INCLUDED,
    NOT_CONFIRMED,
    REGISTERED,
    Registry,
    state_of,
)
from flask_ibi_archive.storage.database import Database

pytestmark = pytest.mark.no_tables

OTHER_KEY = "9876543210"
#: What was kept of a key before.
HASH = "scrypt$16$9MZK9N08pk7EK0nHP8zAhA==$dqa1ISgmMoylIm/dVaWuIxgaklDWPhazSBHdD+xFpFc="
#: Where one database is as good as the other.
memory = pytest.mark.parametrize("uri", ["sqlite://"])


@pytest.fixture
def database(uri: str) -> Iterator[Database]:
    with resolver_database(uri) as database:
        yield database


@pytest.fixture
def registry(database: Database) -> Registry:
    """A registry with one Archive in it, which confirms when it is called back."""
    registry = a_registry(database)
    registry.register(SERVICE, KEY)
    return registry


def only(registry: Registry) -> RegisteredRecord:
    [record] = registry.list()
    return record


def include(registry: Registry, **values: Any) -> RegistrationStatus:
    return registry.take(a_request(**values))


def exclude(registry: Registry, **values: Any) -> RegistrationStatus:
    return registry.take(a_request(EXCLUSION_REQUEST, **values))


# --- keys ----------------------------------------------------------------------------------------


def test_a_key_is_kept_as_a_salted_hash_that_tells_how_it_was_made() -> None:
    kept = hash_key(KEY, CHEAP)
    assert kept != hash_key(KEY, CHEAP)
    assert kept.startswith("scrypt$16$")
    assert hash_key(KEY).startswith("scrypt$16384$")
    assert KEY not in kept
    assert is_key_of(KEY, kept)
    assert is_key_of(KEY, hash_key(KEY, 2 * CHEAP))
    assert not is_key_of(f"{KEY}0", kept)
    # a hash of a database made before
    assert is_key_of(KEY, HASH)


def test_the_key_is_nowhere_to_be_seen(
    database: Database, registry: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    include(registry)
    wrong, none = OTHER_KEY, "hush-hush"
    told = [repr(registry.list()), repr(a_request())]
    for refused in (
        lambda: include(registry, key=wrong),
        lambda: include(registry, service_ibi="a.br/unknown/2001/01.01.00.00"),
        lambda: registry.register(SERVICE, wrong),
        lambda: registry.register(SERVICE, none),
    ):
        with pytest.raises((RegistrationError, ValueError)) as refusal:
            refused()
        told += [*traceback.format_exception(refusal.value), repr(vars(refusal.value))]
    with database.reading() as connection:
        told.append(str(find_key(connection, SERVICE)))
    told += [*caplog.messages, *registry.confirmation_email(SERVICE)]
    for line in told:
        assert not any(key in line for key in (KEY, wrong, none))


# --- registration --------------------------------------------------------------------------------


def test_an_archive_is_registered_once_and_again_without_harm(database: Database) -> None:
    registry = a_registry(database)
    assert registry.register(SERVICE.upper(), KEY, "banon@dpi.inpe.br")
    first = only(registry)
    assert (first.service_ibi, first.email) == (SERVICE, "banon@dpi.inpe.br")
    assert state_of(first) == (REGISTERED, NOON)
    kept = database.read(lambda connection: find_key(connection, SERVICE))
    assert not registry.register(SERVICE, KEY)
    assert only(registry) == first
    assert database.read(lambda connection: find_key(connection, SERVICE)) == kept
    assert not registry.register(SERVICE, KEY, "other@dpi.inpe.br")
    assert only(registry) == replace(first, email="other@dpi.inpe.br")


def test_another_key_takes_the_place_of_the_first_only_where_it_is_told_to(
    registry: Registry,
) -> None:
    include(registry)
    before = only(registry)
    with pytest.raises(AlreadyRegistered, match=r"with another key; .* use --replace"):
        registry.register(SERVICE, OTHER_KEY, "other@dpi.inpe.br")
    assert only(registry) == before
    include(registry)
    assert not registry.register(SERVICE, OTHER_KEY, replace=True)
    assert state_of(only(registry)) == state_of(before)
    with pytest.raises(RegistrationRefused):
        exclude(registry)
    assert exclude(registry, key=OTHER_KEY).archive == "excluded"


@memory
def test_what_is_no_identifier_is_not_registered(registry: Registry) -> None:
    with pytest.raises(IdentifierError):
        registry.register("dpi.inpe.br", KEY)
    with pytest.raises(IdentifierError):
        registry.remove("dpi.inpe.br")


def test_a_registration_that_is_removed_goes_with_all_that_is_known(registry: Registry) -> None:
    include(registry)
    with registry.database.writing() as connection:
        remember_hints(connection, {"8JMKD3MGP8W/35MMLL8": only(registry).id}, NOON)
    registry.remove(SERVICE.upper())
    assert list(registry.list()) == []
    with pytest.raises(RegistrationRefused):
        include(registry)
    with pytest.raises(UnknownArchive, match=f"no Archive with the service {SERVICE} is"):
        registry.remove(SERVICE)
    assert registry.register(SERVICE, OTHER_KEY)
    assert state_of(only(registry))[0] == REGISTERED


def test_two_that_register_one_archive_at_once_register_it_once(database: Database) -> None:
    registry = a_registry(database)
    start = Barrier(4)

    def register(number: int) -> str:
        start.wait()
        try:
            return "new" if registry.register(SERVICE, f"{KEY}-{KEY}{number}") else "again"
        except AlreadyRegistered:
            return "refused"

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(register, (0, 0, 1, 1))) == ["again", "new", "refused", "refused"]
    assert len(registry.list()) == 1


@memory
def test_the_confirmation_names_the_service_and_the_resolver(database: Database) -> None:
    registry = a_registry(database, config=a_config(SERVER_NAME="urlib.net"))
    _, body = registry.confirmation_email(SERVICE)
    assert f"archiveserviceibi = {SERVICE}\n" in body
    assert "IBI_RESOLVER_URL = http://urlib.net/J8LNKB5R7W/3FUQHC5\n" in body


# --- inclusion and exclusion ---------------------------------------------------------------------


def test_the_archive_is_called_back_before_it_is_included(database: Database) -> None:
    ours = a_registry(database)

    def answer() -> HttpResponse:
        # nothing is held meanwhile: another may write, and it is not included yet
        ours.register("a.br/other/2001/01.01.00.00", KEY)
        assert ours.list()[0].included_at is None
        return confirms()

    ours.fetch = calls = Calls(answer)
    ours.register(SERVICE, KEY)
    status = include(ours)
    assert format_registration_status(status) == (
        "status.archive included status.confirmation successful"
    )
    assert calls.made == [
        (
            "http://banon-pc2.dpi.inpe.br/dpi.inpe.br/banon/1999/01.09.22.14",
            "servicesubject=inclusionConfirmationRequest",
            5,
            65536,
        )
    ]
    record = ours.list()[0]
    assert state_of(record)[0] == INCLUDED
    assert (record.address, record.ip) == ("banon-pc2.dpi.inpe.br", "150.163.2.166")
    assert record.platform_version == "2014:11.09.02.16.15"
    assert record.admin_email == "banon@dpi.inpe.br"


NO_CONFIRMATION: list[HttpResponse | TransportError] = [
    confirms(status=201),
    confirms(status=500),
    confirms(status=302, location="http://elsewhere/"),
    confirms(content_type="text/html"),
    confirms(content_type=""),
    confirms("confirmation no"),
    confirms("confirmation {yes yes}"),
    confirms("confirmation yes confirmation no"),
    confirms("alert {confirmation yes}"),
    confirms("status.confirmation yes"),
    confirms("confirmation"),
    confirms("confirmation {yes"),
    confirms(""),
    replace(confirms(), complete=False),
    TransportError("http://x", "timeout", "took too long", True),
]


def test_included_it_is_whether_the_confirmation_comes_or_not(registry: Registry) -> None:
    assert include(registry).confirmed
    for answer in NO_CONFIRMATION:
        registry.fetch = Calls(answer)
        status = include(registry)
        assert (status.archive, status.confirmation) == ("included", "unsuccessful"), answer
        assert state_of(only(registry))[0] == NOT_CONFIRMED
    registry.fetch = Calls(confirms(" confirmation\tyes\n more {}", content_type="Text/Plain; x=y"))
    assert include(registry).confirmed


@memory
def test_the_real_client_asks_as_the_example_does_and_follows_nobody(registry: Registry) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"
    elsewhere = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
    asked: list[bytes] = []

    def talk(peer: socket.socket) -> None:
        asked.append(peer.recv(65536))
        peer.sendall(head + b"confirmation yes")

    registry.fetch = fetch
    with raw(talk, sends(elsewhere), sends(head + b"x" * 70000)) as address:
        assert include(registry, address=address).confirmed
        assert not include(registry, address=address).confirmed
        assert not include(registry, address=address).confirmed
    request = f"GET /{SERVICE}?servicesubject=inclusionConfirmationRequest HTTP/1.1\r\n"
    assert asked[0].startswith(request.encode())
    with nobody() as address:
        assert not include(registry, address=address).confirmed


@memory
def test_an_archive_at_an_internal_address_is_included_only_where_a_setting_allows_it(
    registry: Registry, hosts: Servers
) -> None:
    here = hosts.add(says(http("confirmation yes")))
    include(registry)
    before = only(registry)
    registry.fetch = fetch
    port = here.port
    for inner_hosts in ((), ("10.0.0.0/8", "a.br")):
        registry.config = a_config(IBI_RESOLVER_INNER_HOSTS=inner_hosts)
        for address in (
            f"localhost:{port}",
            f"2130706433:{port}",
            f"0x7f.1:{port}",
            f"[::1]:{port}",
        ):
            with pytest.raises(InternalArchive) as refusal:
                include(registry, address=address)
            assert refusal.value.status == 400
            assert str(refusal.value) == (
                f"archiveaddress: {address} has an internal IP address, which this resolver's setting "
                "IBI_RESOLVER_INNER_HOSTS does not allow"
            )
    assert only(registry) == before
    assert here.accepted == 0
    for inner_hosts in (("localhost", ".br"), ("127.0.0.1", "::1")):
        registry.config = a_config(IBI_RESOLVER_INNER_HOSTS=inner_hosts)
        assert include(registry, address=f"localhost:{port}").confirmed
    assert only(registry).address == f"localhost:{port}"


def test_exclusion_keeps_the_registration_and_the_archive_may_come_back(
    registry: Registry,
) -> None:
    include(registry)
    assert format_registration_status(exclude(registry)) == "status.archive excluded"
    excluded = only(registry)
    assert state_of(excluded)[0] == EXCLUDED
    assert (excluded.included_at, excluded.confirmed_at) == (None, None)
    registry.fetch = calls = Calls(confirms())
    status = include(
        registry,
        address="new.dpi.inpe.br:8080",
        ip="2001:db8::1",
        platform_version="2",
        admin_email="new@dpi.inpe.br",
    )
    assert status.confirmed
    assert calls.made[0][0] == f"http://new.dpi.inpe.br:8080/{SERVICE}"
    record = only(registry)
    assert state_of(record)[0] == INCLUDED
    assert record.excluded_at is None
    assert (record.address, record.ip) == ("new.dpi.inpe.br:8080", "2001:db8::1")
    assert (record.platform_version, record.admin_email) == ("2", "new@dpi.inpe.br")
    assert record.registered_at == excluded.registered_at


def test_to_ask_again_changes_no_date_but_that_of_the_confirmation(registry: Registry) -> None:
    include(registry)
    first = only(registry)
    include(registry)
    assert only(registry) == replace(first, confirmed_at=only(registry).confirmed_at)
    assert only(registry).confirmed_at > first.confirmed_at  # type: ignore[operator]
    exclude(registry)
    gone = only(registry)
    exclude(registry)
    assert only(registry) == gone


def test_one_that_was_never_included_can_be_excluded(registry: Registry) -> None:
    assert exclude(registry).archive == "excluded"
    assert state_of(only(registry)) == (EXCLUDED, NOON + timedelta(seconds=2))


@pytest.mark.parametrize("ask", [include, exclude])
def test_a_wrong_key_and_an_unknown_service_are_told_the_same_and_change_nothing(
    registry: Registry, ask: Callable[..., RegistrationStatus]
) -> None:
    registry.register("a.br/other/2001/01.01.00.00", OTHER_KEY)
    (exclude if ask is include else include)(registry)
    before = registry.list()
    registry.fetch = calls = Calls(confirms())
    unknown = "a.br/unknown/2001/01.01.00.00"
    told = set()
    for values in (
        {"key": OTHER_KEY},
        {"key": f"{KEY}-{KEY}"},
        {"key": f"{KEY}0"},
        {"service_ibi": unknown},
        {"service_ibi": "a.br/other/2001/01.01.00.00"},
    ):
        with pytest.raises(RegistrationRefused) as refusal:
            ask(registry, **values)
        assert refusal.value.status == 403
        told.add(str(refusal.value).replace(refusal.value.service_ibi, "SERVICE"))
    assert told == {"no Archive with the service SERVICE is registered with this key"}
    assert calls.made == []
    assert registry.list() == before


# --- at once -------------------------------------------------------------------------------------


class Slow:
    """An Archive that answers the call back when it is let go."""

    def __init__(self) -> None:
        self.called = Event()
        self.go = Event()

    def __call__(self, url: str, query: str, **options: object) -> HttpResponse:
        self.called.set()
        assert self.go.wait(60)
        return confirms()


def slowly(
    registry: Registry, meanwhile: Callable[[], object], **values: Any
) -> RegistrationStatus | RegistrationRefused:
    """Include an Archive, and do something else while it is called back."""
    quick, slow = registry.fetch, Slow()
    registry.fetch = slow
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(include, registry, **values)
        assert slow.called.wait(60)
        registry.fetch = quick
        try:
            meanwhile()
        finally:
            slow.go.set()
        error = waiting.exception()
        if error is None:
            return waiting.result()
        assert isinstance(error, RegistrationRefused)
        return error


def test_of_two_requests_at_once_the_later_one_counts(registry: Registry) -> None:
    came = slowly(registry, lambda: exclude(registry))
    assert isinstance(came, RegistrationOvertaken)
    assert came.status == 409
    assert str(came).endswith("send this request again if it is the right one")
    assert state_of(only(registry))[0] == EXCLUDED
    came = slowly(registry, lambda: include(registry, address="new.dpi.inpe.br"))
    assert isinstance(came, RegistrationOvertaken)
    assert only(registry).address == "new.dpi.inpe.br"


def test_two_inclusions_at_once_are_both_told_what_is_written_down(registry: Registry) -> None:
    came = slowly(registry, lambda: include(registry))
    assert came == RegistrationStatus("included", "successful")
    registry.fetch = Calls(confirms(status=500))
    came = slowly(registry, lambda: include(registry))
    assert came == RegistrationStatus("included", "unsuccessful")
    assert state_of(only(registry))[0] == NOT_CONFIRMED
    # the later one was excluded and included meanwhile: that is how it stands
    came = slowly(registry, lambda: (exclude(registry), include(registry)))
    assert came == RegistrationStatus("included", "unsuccessful")


def test_a_key_that_is_replaced_or_removed_meanwhile_includes_nobody(registry: Registry) -> None:
    other = registry.register
    came = slowly(registry, lambda: other(SERVICE, OTHER_KEY, replace=True))
    assert type(came) is RegistrationRefused
    assert only(registry).included_at is None
    came = slowly(registry, lambda: registry.remove(SERVICE), key=OTHER_KEY)
    assert type(came) is RegistrationRefused
    registry.register(SERVICE, KEY)

    def anew() -> None:
        registry.remove(SERVICE)
        registry.register(SERVICE, KEY)

    assert type(slowly(registry, anew)) is RegistrationRefused
    assert only(registry).included_at is None


def test_many_at_once_leave_one_of_their_results(registry: Registry) -> None:
    start = Barrier(6)

    def ask(number: int) -> tuple[str, str]:
        start.wait()
        if number % 3 == 2:
            return exclude(registry).archive, ""
        address = f"a{number}.br"
        try:
            return include(registry, address=address).archive, address
        except RegistrationOvertaken:
            return "", ""

    with ThreadPoolExecutor(6) as pool:
        came = set(pool.map(ask, range(6)))
    record = only(registry)
    state = "excluded" if record.included_at is None else "included"
    assert state in {archive for archive, _ in came}
    if state == "included":
        assert (state, record.address) in came
