"""A program gets each identifier once, although servers are killed and answers are lost."""

from __future__ import annotations

import os
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, Response
from sqlalchemy import event
from support.archives import archive_of, make_app
from support.loopback import PATIENCE

from .conftest import Program


def end(*_: Any) -> Response:
    os._exit(9)


def answer_and_end(uri: str, folder: Path, step: str, key: str, json: dict[str, Any]) -> None:
    """Answer a request in an app that ends abruptly at a step."""
    app = make_app(uri, folder, IBI_IDENTIFICATION=True, IBI_GRANULARITY="0.000001")
    if step == "before the answer":
        app.after_request(end)
    else:
        event.listen(archive_of(app).database.engine, "commit", end)
    Program(app.test_client(), key)("POST", json=json, Idempotency_Key="lost")


@pytest.mark.rule("G6-23")
@pytest.mark.postgresql
@pytest.mark.parametrize("json", [{"count": 3}, {"reserve": True}, {"record": {}}])
@pytest.mark.parametrize("step", ["before the commit", "before the answer"])
def test_each_identifier_is_issued_once_and_none_is_lost(
    served_app: Flask, program: Program, uri: str, tmp_path: Path, step: str, json: dict[str, Any]
) -> None:
    arguments = (uri, tmp_path, step, program.key, json)
    process = get_context("fork").Process(target=answer_and_end, args=arguments)
    process.start()
    process.join(PATIENCE)
    assert process.exitcode == 9
    before = [each["rep"] for each in program("GET").json["identifiers"]]
    answers = [program("POST", json=json, Idempotency_Key="lost").json for _ in range(2)]
    issued = [each["rep"] for each in answers[0]["identifiers"]]
    assert answers[1] == answers[0]
    assert before == (issued if step == "before the answer" else [])
    assert [each["rep"] for each in program("GET").json["identifiers"]] == issued
    archive = archive_of(served_app)
    assert [one.rep for one in archive.list_records()] == (issued if "record" in json else [])
    assert [one.rep for one in archive.reservations()] == (issued if "reserve" in json else [])
