"""A PostgreSQL server that does not answer: status 503 in time, and normal service afterwards."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from time import monotonic, sleep

import pytest
from flask import Flask
from support.accesses import acknowledge, stored
from support.archives import archive_of, close, import_records, make_app
from support.clocks import pass_in_time
from support.database_servers import Relay, relaying
from support.databases import new_database
from support.loopback import PATIENCE
from support.web import SERVICE_PATH, Answer, ask, query_of

from flask_ibi_archive.core.protocol.messages import format_request
from flask_ibi_archive.resolver import IBIResolver

#: A request that waits twice takes longer than so many timeouts.
LIMIT = 1.8
REP = "sid.inpe.br/mtc-m18@80/2009/07.21.13.01"
FAR = "sid.inpe.br/mtc-m19@80/2009/08.21.17.02"
LIVE = "/ibi/health/live"
URL_LIST = f"{SERVICE_PATH}?" + query_of(
    ("servicesubject", "urlRequest"),
    ("clientinformation.ipaddress", "192.0.2.1"),
    ("parsedibiurl.ibi", REP),
)
#: A foreign identifier, and a page that the app does not have.
ALIAS, HOST_PATH = "/doi:10.5281/zenodo.1", "/no/such/page"
#: Requests that cannot be answered without the database.
NEEDING = {
    "a URL list": URL_LIST,
    "a landing page": f"/col/{REP}/",
    "a file": f"/col/{REP}/doc/a.txt",
    "a list of files": f"/col/{REP}/files",
    "metadata": f"/col/{REP}/metadata",
    "statistics of an item": f"/col/{REP}/statistics",
    "statistics": "/ibi/statistics",
    "a persistent URL": f"/{REP}",
    "readiness": "/ibi/health/ready",
    "a persistent URL that the resolver asks for": f"/{FAR}",
    "the resolver's readiness": "/ibi-resolver/health/ready",
}


@contextmanager
def relayed_app(folder: Path, timeout: float) -> Iterator[tuple[Flask, Relay]]:
    """Yield an app with a resolver and with an Archive of one item, and the relay to its database.

    The app has no connections yet.

    :param timeout: the seconds that a request waits for the database.
    """
    with new_database("postgresql", folder, ready=True) as direct, relaying(direct) as (relay, uri):
        app = make_app(
            uri, folder, IBI_DATABASE_TIMEOUT=timeout, IBI_RESOLVER_DATABASE_URI=uri, TESTING=False
        )
        IBIResolver(app)
        archive_of(app).init()
        app.extensions["ibi_resolver"].resolver.init()
        import_records(archive_of(app), [{"rep": REP}])
        close(app)
        yield app, relay
        # what is outside of requests waits for the server without a limit
        relay.hangs = False
        close(app)
        app.extensions["ibi_resolver"].resolver.close(0.1)
        app.extensions["ibi_resolver"].resolver.database.close()


def ask_in_time(app: Flask, *targets: str) -> dict[str, Answer]:
    """Return the answers to simultaneous requests.

    :raises queue.Empty: if one does not arrive in time.
    """
    answers: SimpleQueue[tuple[str, Answer]] = SimpleQueue()

    def run(target: str) -> None:
        answers.put((target, ask(app, target)))

    # daemon threads do not prevent the end of the test if a request is never answered
    for target in targets:
        threading.Thread(target=run, args=(target,), daemon=True).start()
    end = monotonic() + LIMIT * app.config["IBI_DATABASE_TIMEOUT"]
    return dict(answers.get(timeout=max(0, end - monotonic())) for _ in targets)


def is_unavailable(answer: Answer) -> bool:
    """Return whether an answer has status 503 and Retry-After."""
    return answer.status == 503 and int(answer.headers["Retry-After"]) > 0


def wait_for_service(app: Flask) -> float:
    """Wait until all requests are answered again, and return the seconds."""
    began = monotonic()
    while any(ask(app, target).status == 503 for target in NEEDING.values()):
        assert monotonic() - began < PATIENCE
        sleep(0.05)
    return monotonic() - began


@pytest.mark.slow
@pytest.mark.parametrize("connections", ["open", "new"])
def test_requests_fail_in_time_and_are_answered_again_when_the_server_is_back(
    tmp_path: Path, connections: str
) -> None:
    def check(timeout: float) -> None:
        with relayed_app(tmp_path, timeout) as (app, relay):
            archive = archive_of(app)
            messages = [acknowledge(archive, REP) for _ in range(2)]
            before, during = (f"{SERVICE_PATH}?{format_request(message)}" for message in messages)
            assert ask(app, before).status == 200
            if connections == "open":
                assert all(ask(app, target).status != 503 for target in NEEDING.values())
            else:
                close(app)
            relay.hangs = True
            # pages without a database work
            answers = ask_in_time(app, LIVE, during, *NEEDING.values())
            assert answers.pop(LIVE).status == 200
            found = {target: is_unavailable(answer) for target, answer in answers.items()}
            assert found == dict.fromkeys((during, *NEEDING.values()), True)
            # the first requests had open connections, this one opens a new one
            assert is_unavailable(ask_in_time(app, URL_LIST)[URL_LIST])
            relay.hangs = False
            # 5 s, and more for a busy machine
            assert wait_for_service(app) < 7 + timeout
            # an acknowledgment that was refused counts later
            assert ask(app, during).status == 200
            keys = [archive.url_keys.read(message.url_key or "") for message in messages]
            counted = {row["url_key"] for row in stored(archive)}
            assert {key.name for key in keys if key is not None} <= counted

    pass_in_time(check)


def test_requests_fail_at_once_while_the_server_is_known_to_be_silent(tmp_path: Path) -> None:
    with relayed_app(tmp_path, 60) as (app, relay):
        assert ask(app, URL_LIST).status == 200
        breaker, now = archive_of(app).database.breaker, 0.0
        breaker.clock = lambda: now
        relay.hangs = True
        breaker.note_timeout(breaker.answers)
        # the first request is a test of the server; no time passes for the breaker after it
        for target in (URL_LIST, *NEEDING.values(), ALIAS):
            assert is_unavailable(ask(app, target)), target
        assert ask(app, HOST_PATH).status == 404
        relay.hangs = False
        end = monotonic() + PATIENCE
        while ask(app, URL_LIST).status == 503:
            assert monotonic() < end
            now += 1
        assert all(ask(app, target).status != 503 for target in (*NEEDING.values(), ALIAS))
