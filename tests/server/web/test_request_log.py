"""The log line of each message, persistent URL and former link."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from flask import Flask
from support.archives import archive_of
from support.documentation import blocks
from support.web import INSIDE, REPORT, SERVICE_PATH, ask, query_of

from flask_ibi_archive.resolver import IBIResolver
from flask_ibi_archive.server.web import request_log

LOGGER = "flask_ibi_archive.requests"
RESOLVER = "/J8LNKB5R7W/3FUQHC5"
KEY, URL_KEY = "1234567890-0987654321", "1111111111-2222222222"
URL_REQUEST = "?" + query_of(
    ("servicesubject", "urlRequest"),
    ("clientinformation.ipaddress", INSIDE),
    ("parsedibiurl.ibi", REPORT),
)
ACKNOWLEDGMENT = f"?servicesubject=acknowledgment&urlkey={URL_KEY}"
VALUES = {"request_id", "kind", "status", "duration"}


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[logging.LogRecord]]:
    """Switch the lines on, and return a function that returns and forgets those so far."""
    caplog.set_level(logging.INFO, LOGGER)

    def take() -> list[logging.LogRecord]:
        found = [record for record in caplog.records if record.name == LOGGER]
        caplog.clear()
        return found

    return take


def values_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return the attributes of a record that a formatter writes as JSON."""
    return {name: vars(record)[name] for name in VALUES}


@pytest.mark.parametrize(
    ("target", "kind", "status"),
    [
        (SERVICE_PATH + URL_REQUEST, "urlRequest", 200),
        (SERVICE_PATH + ACKNOWLEDGMENT, "acknowledgment", 200),
        (f"{SERVICE_PATH}?servicesubject={INSIDE}", "unknown", 400),
        (f"/{REPORT}", "persistentUrl", 302),
        (f"/{REPORT}!!", "persistentUrl", 400),
    ],
)
def test_each_request_to_an_archive_is_one_line(
    web: Flask, lines: Callable[[], list[logging.LogRecord]], target: str, kind: str, status: int
) -> None:
    assert ask(web, target, remote=INSIDE).status == status
    [record] = lines()
    found = values_of(record)
    assert (found["kind"], found["status"]) == (kind, status)
    assert 0 < found["duration"] < 60
    assert record.levelno == logging.INFO
    text = record.getMessage()
    assert dict(pair.split("=") for pair in text.split(" ")) == {
        name: f"{value:.4f}" if name == "duration" else str(value) for name, value in found.items()
    }
    for secret in (INSIDE, URL_KEY):
        assert secret not in text + json.dumps(found)


def test_each_request_to_a_resolver_is_one_line(
    web_with: Callable[..., Flask], lines: Callable[[], list[logging.LogRecord]], tmp_path: Path
) -> None:
    app = web_with(
        IBI_RESOLVER_DATABASE_URI=f"sqlite:///{tmp_path}/r.sqlite",
        IBI_RESOLVER_REGISTRY=True,
        IBI_MINT_HOST="registry.urlib.net",
    )
    IBIResolver(app)
    for target, kind in (
        (f"{RESOLVER}?servicesubject=inclusionRequest&registrationkey={KEY}", "inclusionRequest"),
        (f"{RESOLVER}?servicesubject=clashRequest", "clashRequest"),
        ("/8JMKD3MGP8W/35MMLL8", "persistentUrl"),
        ("/doi:10.5281/zenodo.1", "formerLink"),
        (f"/ibi/registry?verb=RegisterActor&password={KEY}", "documentRegistry"),
    ):
        status = ask(app, target).status
        [record] = lines()
        assert (vars(record)["kind"], vars(record)["status"]) == (kind, status)
        assert KEY not in record.getMessage()


def test_other_requests_are_not_logged(
    web: Flask, lines: Callable[[], list[logging.LogRecord]]
) -> None:
    for target in ("/", "/ibi/health/ready", f"/col/{REPORT}/", "/a/page/of/the/host"):
        ask(web, target)
    assert lines() == []


def test_the_status_of_an_exception_is_logged(
    web_with: Callable[..., Flask], lines: Callable[[], list[logging.LogRecord]]
) -> None:
    app = web_with(PROPAGATE_EXCEPTIONS=False)
    archive_of(app).list_urls = lambda message: 1 / 0  # type: ignore[method-assign, assignment]
    assert ask(app, SERVICE_PATH + URL_REQUEST).status == 500
    assert [vars(record)["status"] for record in lines()] == [500]


@pytest.mark.parametrize(
    ("sent", "is_taken"),
    [("5f0c2a1e-2f6b_4D3E", True), ("x" * 65, False), ("", False), ("a b", False), (INSIDE, False)],
)
def test_the_request_id_is_that_of_the_proxy_if_it_is_safe(
    web: Flask, lines: Callable[[], list[logging.LogRecord]], sent: str, is_taken: bool
) -> None:
    ask(web, f"/{REPORT}", headers={"X-Request-ID": sent})
    [record] = lines()
    found = vars(record)["request_id"]
    assert (found == sent) is is_taken
    assert is_taken or len(found) == 32


def test_the_documented_configuration_writes_json(web: Flask) -> None:
    [block] = [one for one in blocks("howto/production.rst") if one.caption == "logs.py"]
    logger, written = logging.getLogger(LOGGER), io.StringIO()
    try:
        with patch("sys.stderr", written):
            exec(block.text, {})
        ask(web, SERVICE_PATH + URL_REQUEST, headers={"X-Request-ID": "5f0c2a1e"})
    finally:
        logger.handlers, logger.propagate = [], True
        logger.setLevel(logging.NOTSET)
    found = json.loads(written.getvalue())
    assert {*found} == {"time", *VALUES}
    assert [found["request_id"], found["kind"]] == ["5f0c2a1e", "urlRequest"]


def test_nothing_is_measured_or_changed_while_the_lines_are_off(
    web: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    logger = logging.getLogger(LOGGER)
    assert (logger.handlers, logger.level, logger.propagate, logger.filters) == (
        [],
        logging.NOTSET,
        True,
        [],
    )
    monkeypatch.setattr(request_log, "perf_counter", lambda: 1 / 0)
    assert ask(web, f"/{REPORT}").status == 302
