"""Keys of programs: their commands and scopes; nobody learns which keys exist."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from functools import partial
from threading import Barrier
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select, text
from support.archives import archive_of
from support.statements import count_statements

from flask_ibi_archive.archive.identification.keys import ApiKey, create_key, list_keys, revoke_key
from flask_ibi_archive.archive.identification.server import IssuedIdentifier

from .conftest import Program

NOON = datetime(2026, 11, 24, 12, 0, 30, tzinfo=timezone.utc)


@pytest.fixture
def clock(served_app: Flask) -> list[datetime]:
    """A list with the time of the Archive."""
    now = [NOON]
    archive_of(served_app).clock = lambda: now[0]
    return now


def run(app: Flask, *arguments: str) -> Any:
    return app.test_cli_runner().invoke(args=["ibi", "api-key", *arguments])


# --- the commands --------------------------------------------------------------------------------


def test_a_key_is_shown_once_and_stored_as_a_hash(served_app: Flask) -> None:
    created = run(served_app, "create", "--name", "ojs", "--may", "mint,deposit")
    assert created.exit_code == 0, created.output
    key = created.stdout.strip()
    assert len(key) >= len("ibi_") + 43  # 256 bits in base 64
    program = Program(served_app.test_client(), key)
    assert program("POST").status_code == 201
    with archive_of(served_app).database.reading() as connection:
        rows = [str(row) for row in connection.execute(select(ApiKey.__table__))]
    assert key not in " ".join(rows)
    assert key.removeprefix("ibi_") not in run(served_app, "list", "--json").output


def test_keys_are_listed_and_revoked(served_app: Flask, clock: list[datetime]) -> None:
    for name, period in (("ojs", "1y"), ("scanner", "1d"), ("java", "never")):
        run(served_app, "create", "--name", name, "--may", "mint,all", "--expires", period)
    clock[0] += timedelta(days=2)
    assert run(served_app, "revoke", "ojs").output == "revoked ojs\n"
    listed = json.loads(run(served_app, "list", "--json").stdout)
    assert [(key["name"], key["may"], key["status"]) for key in listed] == [
        ("ojs", "mint,all", "revoked"),
        ("scanner", "mint,all", "expired"),
        ("java", "mint,all", "valid"),
    ]
    assert [key["expires_at"] for key in listed][1:] == ["2026-11-25T12:00:30Z", None]
    assert run(served_app, "list").stdout.startswith("name\tmay\tcreated_at\t")
    # a name is never given twice
    again = run(served_app, "create", "--name", "ojs", "--may", "mint")
    assert "a key has the name ojs already" in again.output
    assert "the key ojs was revoked before" in run(served_app, "revoke", "ojs").output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("create --name ojs --may read", "'read' is not one of mint, deposit, all"),
        ("create --name ojs --may all", "add mint, deposit or both"),
        ("create --name ojs --may mint --expires 9999y", "is longer than 100 years"),
        ("create --name= --may mint", "a name has 1 to 100 characters"),
        ("revoke dspace", "the key dspace does not exist"),
    ],
)
def test_a_wrong_argument_is_named(served_app: Flask, arguments: str, message: str) -> None:
    refused = run(served_app, *arguments.split())
    assert refused.exit_code != 0
    assert message in refused.output
    assert list_keys(archive_of(served_app).database, archive_of(served_app).served().id) == []


def test_check_says_whether_programs_can_use_the_server(new_app: Callable[..., Flask]) -> None:
    app = new_app(IBI_IDENTIFICATION=True)
    archive = archive_of(app)
    archive.init()

    def check() -> str:
        lines = app.test_cli_runner().invoke(args=["ibi", "check"]).output.splitlines()
        [line] = [each for each in lines if " programs" in each]
        return str(line)

    assert check().startswith("FAIL programs: no program has a valid key; run: flask ibi api-key")
    create_key(archive.database, archive.served().id, "ojs", ["mint"], archive.clock())
    assert check().startswith("FAIL programs: the keys of programs are sent without encryption")
    app = new_app(IBI_IDENTIFICATION=True, PREFERRED_URL_SCHEME="https")
    assert check() == (
        "ok   programs: 1 programs may use https://mtc-m16c.sid.inpe.br/ibi/identifiers"
    )


# --- wrong keys ----------------------------------------------------------------------------------


def test_a_key_is_needed_and_only_read_from_the_header(served_app: Flask, program: Program) -> None:
    client, key = served_app.test_client(), program.key
    for headers, query in (
        ({}, ""),
        ({}, f"?key={key}&api_key={key}&access_token={key}&Authorization=Bearer+{key}"),
        ({"Authorization": f"Basic {key}"}, ""),
        ({"Authorization": key}, ""),
        ({"X-API-Key": key, "Cookie": f"key={key}"}, ""),
    ):
        answer = client.post(f"/ibi/identifiers{query}", headers=headers)
        assert (answer.status_code, answer.mimetype) == (401, "application/problem+json")
        assert answer.headers["WWW-Authenticate"] == 'Bearer realm="identifiers"'


def test_revoked_expired_and_unknown_keys_are_refused_alike(
    served_app: Flask, new_program: Callable[..., Program], clock: list[datetime]
) -> None:
    archive = archive_of(served_app)
    revoked, expired = new_program("ojs"), new_program("scanner", expires_at=clock[0])
    revoke_key(archive.database, archive.served().id, "ojs", clock[0])
    unknown = Program(served_app.test_client(), "ibi_" + 43 * "A")
    answers, statements = set(), set()

    def ask(program: Program) -> None:
        answer = program("GET")
        answers.add((answer.status_code, answer.text))

    for program in (unknown, revoked, expired):
        executed = count_statements(served_app, partial(ask, program))
        statements.add(re.sub("[0-9]+", "0", " ".join(executed)))
    assert len(statements) == len(answers) == 1
    assert answers.pop()[0] == 401


def test_the_key_of_another_archive_of_the_database_is_unknown(
    program: Program, new_app: Callable[..., Flask]
) -> None:
    other = new_app(
        IBI_IDENTIFICATION=True, IBI_ARCHIVE_SERVICE_IBI="sid.inpe.br/mtc-m19@80/2009/08.21.17.02"
    )
    archive_of(other).init()
    assert Program(other.test_client(), program.key)("GET").status_code == 401
    assert program("GET").status_code == 200


# --- secrets -------------------------------------------------------------------------------------


def test_no_message_contains_the_key(
    served_app: Flask, program: Program, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    logging.getLogger("sqlalchemy.engine").setLevel(logging.DEBUG)
    try:
        program("POST", json={"record": {}})
        program("POST", json={"count": 0})
        Program(served_app.test_client(), program.key + "x")("POST")
        with archive_of(served_app).database.writing() as connection:
            connection.execute(text("ALTER TABLE ibi_prefix RENAME TO ibi_prefix_gone"))
        assert program("POST").status_code == 503
    finally:
        logging.getLogger("sqlalchemy.engine").setLevel(logging.NOTSET)
    assert program.key not in caplog.text
    assert program.key.removeprefix("ibi_") not in caplog.text


# --- requests at the same time -------------------------------------------------------------------


@pytest.mark.postgresql
@pytest.mark.parametrize("json", [{"count": 2}, {"record": {"language": "pt"}}])
def test_the_same_request_at_the_same_time_is_carried_out_once(
    served_app: Flask, program: Program, json: dict[str, Any]
) -> None:
    barrier = Barrier(4)

    def send(number: int) -> Any:
        client = Program(served_app.test_client(), program.key)
        barrier.wait()
        answer = client("POST", json=json, Idempotency_Key="once")
        return answer.status_code, answer.text

    with ThreadPoolExecutor(4) as threads:
        answers = set(threads.map(send, range(4)))
    assert {status for status, _ in answers} == {201}
    assert len(answers) == 1
    with archive_of(served_app).database.reading() as connection:
        rows = connection.execute(select(IssuedIdentifier.rep)).all()
    assert len(rows) == json.get("count", 1)
    assert len(list(archive_of(served_app).find())) == ("record" in json)
