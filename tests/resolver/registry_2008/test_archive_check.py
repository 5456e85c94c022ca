"""Nobody can register the identifiers of the Archives, and take over their persistent URLs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select, update
from support.archives import archive_of, close, import_records, make_app
from support.cases import for_each
from support.databases import new_database
from support.document_registries import (
    IP,
    a_document_registry,
    a_sender,
    actor_request,
    an_actor,
    an_ibi,
    delete,
    describe,
    refusal,
    register,
)
from support.registries import KEY, NOON, a_registry, a_request, included, resolver_database
from support.registry_calls import (
    DOCUMENT,
    HERMES,
    actor_call,
    call,
    document_call,
    error_of,
    registry_app,
)
from support.resolving import resolver_of
from support.web import ask

from flask_ibi_archive.core.identifiers import Identifier, build_ibip
from flask_ibi_archive.core.protocol.registry_2008.model import ChangeActor, Credentials
from flask_ibi_archive.errors import DocumentRegistryError
from flask_ibi_archive.resolver import hints
from flask_ibi_archive.resolver.archives import Archive
from flask_ibi_archive.resolver.hints import delete_old_hints, store_hints
from flask_ibi_archive.resolver.registry_2008.actors import cancel_actor
from flask_ibi_archive.resolver.registry_2008.new_identifiers import (
    MAX_SILENCE,
    RETRY_AFTER,
    Applicant,
)
from flask_ibi_archive.resolver.registry_2008.tables import Actor
from flask_ibi_archive.resolver.tables import Hint, RegisteredArchive
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.migrate import RESOLVER
from flask_ibi_archive.testing.servers import LoopbackServer

FROM_ARCHIVE = "http://archive.br/1"
EVIL = "http://hermes.dpi.inpe.br:1905/evil"

#: Items of an Archive: with both forms, without metadata, and one that is removed later.
REP, IBIP = "sid.inpe.br/mtc-m18@80/2009/07.21.13.23", "8JMKD3MGP8W/35MME4E"
NEVER_READ = "sid.inpe.br/mtc-m18@80/2009/07.21.13.24"
REMOVED = "sid.inpe.br/mtc-m18@80/2009/07.21.13.25"
RECORDS: list[dict[str, Any]] = [
    {"rep": REP, "ibip": IBIP, "files": [{"path": "a.txt", "url": FROM_ARCHIVE}]},
    {"rep": NEVER_READ, "files": [{"path": "a.txt", "url": "http://archive.br/2"}]},
    {"rep": REMOVED, "files": [{"path": "a.txt", "url": "http://archive.br/3"}]},
]

# --- a stranger, an Archive and a resolver -------------------------------------------------------


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    found = LoopbackServer()
    yield found
    found.close()


@pytest.fixture
def archive(server: LoopbackServer, tmp_path: Path) -> Iterator[Flask]:
    """The app of an Archive, which answers requests."""
    with new_database("sqlite", tmp_path, ready=True) as uri:
        app = make_app(
            uri, tmp_path, IBI_ARCHIVE_ADDRESS=server.address, IBI_LOCAL_RESOLUTION=False
        )
        archive_of(app).init()
        import_records(archive_of(app), RECORDS)
        server.serve(app)
        yield app
        close(app)


@pytest.fixture
def resolver(archive: Flask, server: LoopbackServer, tmp_path: Path) -> Iterator[Flask]:
    """A resolver that has included the Archive, and a stranger that is an actor."""
    with registry_app(tmp_path / "resolver") as app:
        registry = a_registry(resolver_of(app).database)
        service = archive_of(archive).served().service_ibi
        registry.register(service, KEY)
        registry.process(a_request(service_ibi=service, address=server.address))
        assert call(app, actor_call(HERMES)).status == 200
        yield app


def registers(resolver: Flask, ibi: str) -> tuple[int, str]:
    """Register a document as the stranger, and return the status and the kind of the error."""
    answer = call(resolver, document_call(HERMES, ibi, EVIL))
    return answer.status, "" if answer.status == 200 else error_of(answer)[0]


def leads(resolver: Flask, target: str) -> tuple[int, str | None]:
    """Return the status and the URL to which a persistent URL leads."""
    answer = ask(resolver, f"/{target}", headers={"Host": "urlib.net"})
    return answer.status, answer.headers.get("Location")


@pytest.mark.rule("P4-04")
def test_a_stranger_cannot_register_the_items_of_an_archive(
    resolver: Flask, archive: Flask, server: LoopbackServer
) -> None:
    archive_of(archive).delete(REMOVED, "withdrawn")
    for ibi in (REP, REP.upper(), IBIP, IBIP.lower(), NEVER_READ, REMOVED):
        assert registers(resolver, ibi) == (409, "conflict")
        assert call(resolver, actor_call(ibi)).status == 409
    _, message = error_of(call(resolver, document_call(HERMES, REP, EVIL)))
    service = archive_of(archive).served().service_ibi
    assert message == f"the Archive {service} has or had {REP}; send another identifier, or none"
    assert registers(resolver, DOCUMENT) == (200, "")
    assert leads(resolver, REP) == (302, FROM_ARCHIVE)
    server.close()
    # the resolver knows that the Archive had this item; it may have the other ones
    assert registers(resolver, REP) == (409, "conflict")
    assert registers(resolver, NEVER_READ) == (503, "unavailable")
    assert registers(resolver, DOCUMENT) == (200, "")
    assert call(resolver, document_call(HERMES, "", EVIL)).status == 200


def test_earlier_registrations_of_a_stranger_do_not_take_over_persistent_urls(
    resolver: Flask, archive: Flask, server: LoopbackServer
) -> None:
    # these registrations are from a time when the resolver had not included the Archive
    registry = resolver_of(resolver).document_registry
    assert registry is not None
    registry.ask = lambda *asked: {1: False}
    for ibi in (REP, IBIP, REMOVED):
        request = document_call(
            HERMES,
            ibi,
            EVIL,
            originalDocument="yes",
            metadataURL=f"{EVIL}/marc",
            metadataLastUpdate="2008-07-17T17:22:06Z",
            metadataFormat="marcxml",
        )
        assert call(resolver, request).status == 200
    archive_of(archive).delete(REMOVED, "withdrawn")
    for _ in range(2):
        assert leads(resolver, REP) == leads(resolver, IBIP) == (302, FROM_ARCHIVE)
        original = leads(resolver, f"{REP}?ibiurl.requireditemstatus=Original")
        assert original == (302, FROM_ARCHIVE)
        assert leads(resolver, REMOVED) == leads(resolver, f"{REMOVED}:(marcxml)") == (410, None)
        answer = ask(resolver, f"/{REP}:(marcxml)", headers={"Accept": "text/plain"})
        assert answer.status == 404
        assert f"{REP} is known, but does not have metadata in this format" in " ".join(
            answer.pairs["alert"]
        )
    server.close()
    for ibi in (REP, IBIP, REMOVED):
        for modifier in ("", ":(marcxml)", "?ibiurl.requireditemstatus=Original"):
            assert leads(resolver, f"{ibi}{modifier}") == (504, None)


def test_the_archive_of_the_same_app_is_asked_without_http(tmp_path: Path) -> None:
    with new_database("sqlite", tmp_path, ready=True) as uri:
        archive = make_app(uri, tmp_path, IBI_ARCHIVE_ADDRESS="127.0.0.1:1")
        with registry_app(tmp_path, archive) as app:
            archive_of(app).init()
            import_records(archive_of(app), RECORDS)
            registry = a_registry(resolver_of(app).database)
            service = archive_of(app).served().service_ibi
            registry.register(service, KEY)
            registry.process(a_request(service_ibi=service, address="127.0.0.1:1"))
            assert call(app, actor_call(HERMES)).status == 200
            assert registers(app, REP) == (409, "conflict")
            assert registers(app, DOCUMENT) == (200, "")
        close(archive)


# --- Archives that do not answer -----------------------------------------------------------------

#: An identifier with another host than the Archives and the actors.
FOREIGN = "other.org/x/2001/01.11.16.21"
DAYS = MAX_SILENCE / timedelta(days=1)


@dataclass
class Setting:
    """A registry with an actor, and a resolver with three Archives.

    :ivar silent: the ids of the Archives that do not answer.
    :ivar knows: the id of the Archive that knows all identifiers.
    :ivar asked: the identifiers about which the Archives were asked.
    """

    database: Database
    silent: set[int] = field(default_factory=set)
    knows: int | None = None
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        included(a_registry(self.database), 3)
        self.registry = a_document_registry(self.database, ask=self.ask)
        self.actor = an_actor(self.registry, "actor")
        self.other = an_actor(self.registry, "other")
        self.asked.clear()

    def ask(
        self, archives: Sequence[Archive], ibi: Identifier, applicant: Applicant
    ) -> dict[int, bool]:
        self.asked.append(ibi.text)
        return {one.id: one.id == self.knows for one in archives if one.id not in self.silent}

    def change_second(self, **values: object) -> None:
        """Change columns of the second Archive."""
        second = update(RegisteredArchive).where(RegisteredArchive.id == 2)
        with self.database.writing() as connection:
            connection.execute(second.values(values))

    def hint(self, ibi: str) -> None:
        """Store that an item was last found in the second Archive."""
        with self.database.writing() as connection:
            store_hints(connection, {ibi: 2}, NOON)

    def refuses(self, ibi: str | None, actor: Credentials | None = None) -> str:
        """Register a document, and return the kind of the error; "" without an error."""
        return refusal(register, self.registry, actor or self.actor, ibi)[0]


@pytest.fixture
def setting(uri: str) -> Iterator[Setting]:
    with resolver_database(uri) as database:
        yield Setting(database)


def test_an_archive_that_answered_lately_may_have_any_identifier(setting: Setting) -> None:
    setting.silent = {2}
    for days, expected in ((0, "unavailable"), (DAYS, "unavailable"), (DAYS + 0.01, "")):
        setting.change_second(last_answer_at=NOON - timedelta(days=days))
        assert setting.refuses(FOREIGN) == expected
    setting.change_second(last_answer_at=None, included_at=NOON)
    with pytest.raises(DocumentRegistryError) as error:
        register(setting.registry, setting.actor, "other.org/y/2001/01.11.16.21")
    assert str(error.value) == (
        "1 of 3 Archives did not answer whether they have other.org/y/2001/01.11.16.21; "
        "try again later, or send no identifier"
    )
    assert error.value.retry_after == RETRY_AFTER


@for_each(
    "ibi",
    [
        "a.br/archive1/2026/11.23.10.00",
        "example.org/a1/2026/11.23.10.00",
        build_ibip("150.163.2.166", 800, Fraction(10**9)).text,
        "other.org/known/2001/01.11.16.21",
        "83LX3pFwXQZeBBx/other",
    ],
)
def test_an_archive_that_is_down_for_weeks_may_have_what_it_minted_or_what_has_a_known_prefix(
    setting: Setting, ibi: str
) -> None:
    setting.change_second(last_answer_at=NOON - timedelta(days=DAYS + 1))
    setting.hint("other.org/known/2009/07.21.13.24")
    setting.hint("83LX3pFwXQZeBBx/hwiTk")
    setting.silent = {2}
    assert setting.refuses(ibi) == "unavailable"
    assert setting.refuses(FOREIGN) == ""
    setting.silent = {1}
    assert setting.refuses(ibi) == "unavailable"
    setting.silent = set()
    assert setting.refuses(ibi) == ""


def test_the_host_of_the_actor_is_enough_unless_an_archive_has_the_prefix(setting: Setting) -> None:
    setting.silent = {1, 2, 3}
    assert setting.refuses("dpi.inpe.br/hermes/2026/11.23.10.00") == ""
    assert setting.refuses(build_ibip(IP, 80, Fraction(10**9)).text) == ""
    assert setting.refuses("dpi.inpe.br/herms/2026/11.23.10.00") == "unavailable"
    setting.hint("dpi.inpe.br/hermes/2001/01.11.16.21")
    assert setting.refuses("dpi.inpe.br/hermes/2026/11.23.10.01") == "unavailable"


def test_what_an_archive_has_or_had_is_refused_even_if_the_archive_is_excluded(
    setting: Setting,
) -> None:
    setting.knows = 3
    assert setting.refuses(FOREIGN) == "conflict"
    setting.knows = None
    setting.hint(FOREIGN)
    setting.asked.clear()
    service = "a.br/archive1/2001/01.01.00.00"
    for _ in range(2):
        assert setting.refuses(FOREIGN) == setting.refuses(service) == "conflict"
        request = actor_request(FOREIGN)
        assert refusal(setting.registry.register_actor, request, a_sender())[0] == "conflict"
        setting.change_second(included_at=None, confirmed_at=None, excluded_at=NOON)
    assert setting.asked == []
    # the operator of the resolver may remove an Archive that will not return
    a_registry(setting.database).remove(service)
    assert setting.refuses(FOREIGN) == ""


def test_only_a_new_registration_with_an_identifier_asks_the_archives(setting: Setting) -> None:
    assert setting.refuses(FOREIGN) == setting.refuses(None) == ""
    assert setting.asked == [FOREIGN]
    setting.silent = {1, 2, 3}
    # the actor may change its URLs, and another actor cannot add a copy without a check
    assert setting.refuses(FOREIGN) == setting.refuses(None) == ""
    assert setting.refuses(FOREIGN, setting.other) == "unavailable"
    setting.registry.change_actor(
        ChangeActor(setting.actor, FOREIGN, setting.other.actor_id), a_sender()
    )
    assert setting.refuses(FOREIGN, setting.other) == ""


def test_the_hint_for_a_registered_document_is_kept(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert setting.refuses(FOREIGN) == ""
    setting.hint(FOREIGN)
    setting.hint("a.br/x/2001/01.01.00.00")
    with setting.database.writing() as connection:
        monkeypatch.setattr(hints, "MAX_HINTS", 0)
        delete_old_hints(connection)
        assert connection.scalars(select(Hint.ibi)).all() == [FOREIGN]


# --- one namespace -------------------------------------------------------------------------------


@pytest.mark.rule("P4-04")
def test_an_identifier_belongs_to_one_actor_or_to_one_document(setting: Setting) -> None:
    registry, actor = setting.registry, setting.actor
    in_use = "{} {} is already in use; send another one, or none"
    refused = refusal(register, registry, actor, actor.actor_id)
    assert refused == ("conflict", in_use.format("documentID", actor.actor_id))
    assert setting.refuses(setting.other.actor_id) == "conflict"
    assert setting.refuses(FOREIGN) == ""
    refused = refusal(registry.register_actor, actor_request(FOREIGN), a_sender())
    assert refused == ("conflict", in_use.format("actorID", FOREIGN))
    assert describe(registry, FOREIGN) == ["actor document"]
    # the identifier of a document that is deleted may be used again
    delete(registry, actor, FOREIGN)
    assert registry.register_actor(actor_request(FOREIGN), a_sender()) == FOREIGN
    with setting.database.writing() as connection:
        row_id = connection.scalar(select(Actor.id).where(Actor.actor_id == FOREIGN))
        assert cancel_actor(connection, row_id, NOON) is not None
    assert setting.refuses(FOREIGN) == "conflict"


def test_the_documents_of_a_cancelled_actor_free_their_identifiers(setting: Setting) -> None:
    assert setting.refuses(FOREIGN) == ""
    with setting.database.writing() as connection:
        row_id = connection.scalar(select(Actor.id).where(Actor.actor_id == setting.actor.actor_id))
        assert cancel_actor(connection, row_id, NOON) is not None
    assert setting.refuses(FOREIGN, setting.other) == ""


@pytest.mark.rule("P4-04")
def test_nobody_can_register_the_identifier_of_the_resolver(setting: Setting) -> None:
    service = setting.registry.config.service_ibi
    message = f"{service} is the service of this resolver; send another identifier, or none"
    for refused in (
        refusal(register, setting.registry, setting.actor, service),
        refusal(setting.registry.register_actor, actor_request(service), a_sender()),
    ):
        assert refused == ("conflict", message)


def test_of_an_actor_and_a_document_at_the_same_time_one_gets_the_identifier(uri: str) -> None:
    with resolver_database(uri) as database, closing(Database.at(uri, RESOLVER)) as second:
        registries = a_document_registry(database), a_document_registry(second)
        actor = an_actor(registries[0], "actor")
        for number in range(4):
            ibi = an_ibi(f"race{number}")
            start = Barrier(2)

            def run(call: Any, *arguments: Any, start: Barrier = start) -> tuple[str, str]:
                start.wait()
                return refusal(call, *arguments)

            with ThreadPoolExecutor(2) as pool:
                document = pool.submit(run, register, registries[0], actor, ibi)
                request = actor_request(ibi)
                other = pool.submit(run, registries[1].register_actor, request, a_sender())
                codes = [document.result()[0], other.result()[0]]
            assert sorted(codes) == ["", "conflict"]
