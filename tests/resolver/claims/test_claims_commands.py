"""Following in an app: the commands, the thread and the check."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import update
from support.archive_servers import Servers
from support.cases import for_each
from support.claim_logs import ClaimLog, a_claim
from support.commands import ROOT, Outcome, command, environment
from support.loopback import HERE, PATIENCE
from support.registries import KEY, SERVICE, Calls, a_registry, a_request, confirms

from flask_ibi_archive.core.claims.claim import name_key
from flask_ibi_archive.resolver import IBIResolver
from flask_ibi_archive.resolver.commands import ibi_resolver
from flask_ibi_archive.resolver.old_claims.tables import FollowedLog, ResolverState
from flask_ibi_archive.resolver.service import ResolverService
from flask_ibi_archive.server.http.transport import HttpResponse

pytestmark = pytest.mark.no_tables

IBI = a_claim().identifiers[0]


class App:
    """An app with a resolver that has included one Archive with a log."""

    def __init__(self, hosts: Servers, folder: Path, log: ClaimLog, **config: Any) -> None:
        self.log = log
        self.settings = {
            "IBI_RESOLVER_DATABASE_URI": f"sqlite:///{folder}/resolver.sqlite",
            "IBI_RESOLVER_CLAIMS_FOLDER": str(folder / "claims"),
            "IBI_RESOLVER_INNER_HOSTS": HERE,
            **config,
        }
        self.flask = Flask("resolver", instance_path=str(folder))
        self.flask.config.from_mapping(self.settings)
        IBIResolver(self.flask)
        self.resolver: ResolverService = self.flask.extensions["ibi_resolver"].resolver
        self.resolver.init()
        calls = Calls(confirms())
        calls.key = HttpResponse(200, {}, log.find("key") or b"")
        registry = a_registry(self.resolver.database, calls, config=self.resolver.config)
        registry.register(SERVICE, KEY)
        server = hosts.add(lambda target, head: self.log.answer(target, head))
        registry.process(a_request(address=server.address))

    def run(self, *words: str) -> Outcome:
        return command(self.flask, *words, group=ibi_resolver)

    def is_claimed(self, ibi: str) -> bool:
        key = name_key(ibi)
        return bool(
            self.resolver.database.read(
                lambda connection: self.resolver.claim_index.find(connection, [key])
            )
        )

    def wait_for(self, ibi: str) -> None:
        end = monotonic() + PATIENCE
        while not self.is_claimed(ibi):
            assert monotonic() < end
            sleep(0.02)


@pytest.fixture
def app(hosts: Servers, tmp_path: Path) -> Iterator[App]:
    app = App(hosts, tmp_path, ClaimLog().add(a_claim(), b"no claim"))
    yield app
    app.resolver.close()


def test_follow_once_reads_all_logs(app: App) -> None:
    outcome = app.run("follow", "--once")
    assert (outcome.status, outcome.out) == (0, "")
    assert app.is_claimed(IBI)


def test_follow_once_says_that_another_process_follows(app: App) -> None:
    other = app.resolver.make_follower()
    assert other.run_once()
    assert app.run("follow", "--once").error == "another process follows the claims of Archives"
    other.close()
    assert app.run("follow", "--once").status == 0


@pytest.mark.slow
@for_each("number", [signal.SIGTERM, signal.SIGINT])
def test_follow_runs_until_a_signal(app: App, number: signal.Signals) -> None:
    program = (
        "from flask import Flask; from flask_ibi_archive.resolver import IBIResolver\n"
        "def create_app():\n"
        "    app = Flask('resolver', instance_path='/nowhere')\n"
        f"    app.config.from_mapping({app.settings!r})\n"
        "    IBIResolver(app)\n"
        "    return app\n"
    )
    folder = Path(str(app.resolver.config.claims_folder)).parent
    (folder / "served.py").write_text(program)
    more = a_claim(10 + number.value)
    app.log.add(more)
    with app.resolver.database.writing() as connection:
        connection.execute(update(FollowedLog).values(read_at=None))
    process = subprocess.Popen(
        [sys.executable, "-m", "flask", "--app", "served", "ibi-resolver", "follow"],
        env=environment(folder, PYTHONPATH=f"{ROOT}{os.pathsep}{folder}"),
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
    )
    app.wait_for(more.identifiers[0])
    process.send_signal(number)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert "Traceback" not in err


def test_claims_lists_the_logs(app: App) -> None:
    address = app.resolver.registry.list()[0].address
    header = "service\taddress\tstate\tentries\tage_seconds\tread_at\treason"
    assert app.run("claims").lines == [header, f"{SERVICE}\t{address}\tnew\t0\t\t\t"]
    app.run("follow", "--once")
    [listed] = json.loads(app.run("claims", "--json").data)
    assert listed["state"] == "current"
    assert listed["entries"] == 2
    assert 0 <= listed["age_seconds"] < PATIENCE
    assert listed["key"] == app.log.signer.verifier.format()
    app.resolver.registry.remove(SERVICE)
    assert app.run("claims").lines == [header]


def test_claims_lists_keys_and_rejected_entries(app: App) -> None:
    app.run("follow", "--once")
    [key] = json.loads(app.run("claims", "--keys", "--json").data)
    assert key["key"] == app.log.signer.verifier.format()
    _, rejected = app.run("claims", "--rejected").lines
    assert rejected.startswith(f"{SERVICE}\t1\tibi: a claim must name")


def test_a_thread_follows_from_the_first_request_on(hosts: Servers, tmp_path: Path) -> None:
    app = App(hosts, tmp_path, ClaimLog().add(a_claim()), IBI_RESOLVER_FOLLOW=True)
    app.flask.test_client().get("/ibi-resolver/health/live")
    app.wait_for(IBI)
    app.resolver.close(PATIENCE)
    assert app.run("follow", "--once").status == 0  # the thread has released the lease


def test_no_thread_follows_without_the_setting(app: App) -> None:
    app.flask.test_client().get("/ibi-resolver/health/live")
    assert app.log.asked == []


def check(app: App) -> tuple[bool, str]:
    outcome = app.run("check", "--json")
    [found] = [one for one in json.loads(outcome.out) if one["name"] == "claims"]
    return found["ok"], found["text"]


def test_check_says_if_nobody_follows_or_a_log_is_forked(app: App) -> None:
    ok, text = check(app)
    assert not ok
    assert text.startswith("1 new; the claims were never followed")
    app.run("follow", "--once")
    assert check(app) == (True, "1 current")
    with app.resolver.database.writing() as connection:
        connection.execute(
            update(ResolverState).values(followed_at=datetime(2026, 1, 1, tzinfo=timezone.utc))
        )
    ok, text = check(app)
    assert not ok
    assert "not followed" in text
    app.run("follow", "--once")
    with app.resolver.database.writing() as connection:
        connection.execute(update(FollowedLog).values(state="forked", reason="signed two"))
    ok, text = check(app)
    assert not ok
    assert f"1 forked; {SERVICE} signed two" in text
