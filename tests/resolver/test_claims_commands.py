"""Following in an app: the commands and the thread."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import update
from support.archive_servers import Servers
from support.claiming import ClaimingArchive, a_claim, an_ibi, follow_row, rows_of, utc_now
from support.commands import ROOT, Outcome, command, environment
from support.loopback import HERE, PATIENCE
from support.registries import NOON, SERVICE

from flask_ibi_archive.resolver import IBIResolver
from flask_ibi_archive.resolver.commands import ibi_resolver
from flask_ibi_archive.resolver.resolving import ResolverService
from flask_ibi_archive.resolver.tables import ClaimedName, FollowedArchive, RegisteredArchive

pytestmark = pytest.mark.no_tables

HEADER = "service\taddress\tstate\tnames\tread_at\treason"


class App:
    """An app with a resolver that has included one Archive with claims."""

    def __init__(self, hosts: Servers, folder: Path, *claims: Any, **config: Any) -> None:
        self.archive = ClaimingArchive(clock=utc_now).set(*claims)
        self.folder = folder
        self.settings = {
            "IBI_RESOLVER_DATABASE_URI": f"sqlite:///{folder}/resolver.sqlite",
            "IBI_INNER_HOSTS": HERE,
            **config,
        }
        self.flask = Flask("resolver", instance_path=str(folder))
        self.flask.config.from_mapping(self.settings)
        IBIResolver(self.flask)
        self.resolver: ResolverService = self.flask.extensions["ibi_resolver"].resolver
        self.resolver.init()
        self.server = hosts.add(self.archive.answer)
        follow_row(self.resolver.database, self.archive, self.server.address)

    def run(self, *words: str) -> Outcome:
        return command(self.flask, *words, group=ibi_resolver)

    def is_claimed(self, ibi: str) -> bool:
        return ibi in {row.name for row in rows_of(self.resolver.database, ClaimedName)}

    def set(self, table: Any = FollowedArchive, **values: Any) -> None:
        """Change the row of the Archive."""
        with self.resolver.database.writing() as connection:
            connection.execute(update(table).values(values))

    def state(self) -> str:
        """Return the state of the Archive."""
        [listed] = json.loads(self.run("claims", "--json").out)
        return str(listed["state"])

    def wait_for(self, ibi: str) -> None:
        end = monotonic() + PATIENCE
        while not self.is_claimed(ibi):
            assert monotonic() < end
            sleep(0.02)


@pytest.fixture
def app(hosts: Servers, tmp_path: Path) -> Iterator[App]:
    app = App(hosts, tmp_path, a_claim(0))
    yield app
    app.resolver.close()


def test_follow_once_reads_what_is_due(app: App) -> None:
    outcome = app.run("follow", "--once")
    assert (outcome.status, outcome.out) == (0, "")
    assert app.is_claimed(an_ibi(0))


def test_follow_once_says_that_another_process_follows(app: App) -> None:
    other = app.resolver.make_follower()
    assert other.run_once()
    assert app.run("follow", "--once").error == "another process follows the claims of Archives"
    other.close()
    assert app.run("follow", "--once").status == 0


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_follow_runs_until_a_signal(app: App, number: signal.Signals) -> None:
    program = (
        "from flask import Flask; from flask_ibi_archive.resolver import IBIResolver\n"
        "def create_app():\n"
        "    app = Flask('resolver', instance_path='/nowhere')\n"
        f"    app.config.from_mapping({app.settings!r})\n"
        "    IBIResolver(app)\n"
        "    return app\n"
    )
    (app.folder / "served.py").write_text(program)
    app.archive.set(a_claim(10 + number.value))
    app.set(due_at=None)
    process = subprocess.Popen(
        [sys.executable, "-m", "flask", "--app", "served", "ibi-resolver", "follow"],
        env=environment(app.folder, PYTHONPATH=f"{ROOT}{os.pathsep}{app.folder}"),
        cwd=app.folder,
        stderr=subprocess.PIPE,
        text=True,
    )
    app.wait_for(an_ibi(10 + number.value))
    process.send_signal(number)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert "Traceback" not in err


def test_claims_lists_the_archives_with_their_states(app: App) -> None:
    address = app.server.address
    assert app.run("claims").lines == [HEADER, f"{SERVICE}\t{address}\tnew\t0\t\t"]
    app.run("follow", "--once")
    [listed] = json.loads(app.run("claims", "--json").data)
    assert (listed["state"], listed["names"]) == ("current", 1)
    assert listed["key"] == app.archive.public_key
    app.set(failures=1, reason="took too long")
    assert app.state() == "silent"
    app.set(read_at=NOON)
    assert app.state() == "stale"
    app.set(contradictions=3)
    assert app.state() == "contradicted"
    app.set(RegisteredArchive, included_at=None, excluded_at=NOON)
    assert app.state() == "excluded"
    app.resolver.registry.remove(SERVICE)
    assert app.run("claims").lines == [HEADER]


def test_refused_claims_are_listed_until_they_are_read_again(app: App) -> None:
    app.archive.set("item 7 nonsense")
    app.run("follow", "--once")
    assert app.state() == "refused"
    header, line = app.run("claims", "--refused").lines
    assert header == "service\titem\treason\trefused_at"
    assert line.startswith(f"{SERVICE}\t7\t")
    [listed] = json.loads(app.run("claims", "--refused", "--json").data)
    assert listed["item"] == "7"
    app.archive.set(a_claim(7))
    assert app.run("follow", "--again", SERVICE).status == 0
    assert app.state() == "new"
    app.run("follow", "--once")
    assert app.state() == "current"
    assert app.run("claims", "--refused").lines == [header]


def test_an_archive_that_is_read_again_must_publish_claims(app: App) -> None:
    assert "publishes claims" in app.run("follow", "--again", "x.br/a/2001/01.01.00.00").error


def test_a_thread_follows_from_the_first_request_on(hosts: Servers, tmp_path: Path) -> None:
    app = App(hosts, tmp_path, a_claim(0), IBI_RESOLVER_FOLLOW=True)
    app.flask.test_client().get("/ibi-resolver/health/live")
    app.wait_for(an_ibi(0))
    app.resolver.close(PATIENCE)
    assert app.run("follow", "--once").status == 0  # the thread has released the lease


def test_no_thread_follows_without_the_setting(app: App) -> None:
    app.flask.test_client().get("/ibi-resolver/health/live")
    assert not app.server.asked
