"""The command check-links: no output if all links work, else a line for each broken link."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from flask import Flask
from support.archives import archive_of, import_records
from support.commands import command
from support.far import Far, Reply
from support.web import rep

NewApp = Callable[..., Flask]


@pytest.fixture
def links(new_app: NewApp, far: Far) -> Flask:
    """An app with items whose files are on two other hosts; a single failure is reported."""
    app = new_app(IBI_LINK_FAILURES=1)
    archive_of(app).init()
    # each of them gets one request, without the delay before a second one
    far.replies |= {"good": Reply(), "bad": Reply(302)}
    files = [
        {"path": "good.pdf", "url": far.url("good")},
        {"path": "two  words.pdf", "url": far.url("bad", "localhost")},
    ]
    more = [{"path": f"{n}.pdf", "url": far.url("bad", "localhost")} for n in range(4)]
    import_records(
        archive_of(app), [{"rep": rep(1), "files": files}, {"rep": rep(2), "files": more}]
    )
    return app


def test_there_is_no_output_if_all_links_work(links: Flask, far: Far) -> None:
    far.replies["bad"] = Reply()
    outcome = command(links, "check-links")
    assert (outcome.status, outcome.out, outcome.err) == (0, "", "")
    assert json.loads(command(links, "check-links", "--json").data) == []


def test_the_summary_is_shown_on_a_terminal_if_all_links_work(
    links: Flask, far: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    far.replies["bad"] = Reply()
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda stream: True)
    outcome = command(links, "check-links")
    assert (outcome.status, outcome.out) == (0, "")
    assert outcome.err.splitlines()[-1] == (
        "checked 2 addresses: 2 answered, 0 failed, 0 put off; 0 reported as broken"
    )


def test_a_line_contains_address_time_reason_and_items(links: Flask, far: Far) -> None:
    outcome = command(links, "check-links", "--host", "localhost")
    assert outcome.status == 1
    assert outcome.err == (
        "checked 1 addresses: 0 answered, 1 failed, 0 put off; 1 reported as broken\n"
    )
    [line] = outcome.out.splitlines()
    url, since, error, places = line.split("\t")
    assert (url, error) == (far.url("bad", "localhost"), "answers 302 (Found) without a Location")
    assert since.endswith("Z")
    assert places == f"{rep(1)} two words.pdf, {rep(2)} 0.pdf, {rep(2)} 1.pdf, and 2 more"
    # a broken link that was checked recently is reported without a new check
    requests = len(far.requests)
    again = command(links, "check-links", "--host", "localhost", "--older-than", 1)
    assert (again.status, again.out) == (1, outcome.out)
    assert again.err == (
        "checked 0 addresses: 0 answered, 0 failed, 0 put off; 1 reported as broken\n"
    )
    assert len(far.requests) == requests


def test_json_has_the_same_values(links: Flask, far: Far) -> None:
    outcome = command(links, "check-links", "--json", "--threads", 2)
    assert outcome.status == 1
    assert outcome.err == (
        "checked 2 addresses: 1 answered, 1 failed, 0 put off; 1 reported as broken\n"
    )
    [failure] = json.loads(outcome.out)
    assert failure["url"] == far.url("bad", "localhost")
    assert failure["used"] == len(failure["uses"]) == 5
    assert failure["uses"][0] == {"ibi": rep(1), "path": "two  words.pdf"}
    assert failure["noticed_at"] is None  # this is the first report of the link


def test_wrong_options_are_a_usage_error(links: Flask, far: Far) -> None:
    for words, part in (
        (["--delay", "0.5"], "'--delay'"),
        (["--threads", "0"], "'--threads'"),
        (["--older-than", "-1"], "'--older-than'"),
        (["--older-than", "long"], "'--older-than'"),
        (["x"], "unexpected extra argument"),
    ):
        assert part in command(links, "check-links", *words).usage
    assert far.requests == []


def test_before_init_the_error_names_the_command(new_app: NewApp) -> None:
    assert "flask ibi init" in command(new_app(), "check-links").error
