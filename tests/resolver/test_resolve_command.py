"""The command ``ibi-resolver resolve``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from support.archive_servers import Servers, http
from support.commands import Outcome, command
from support.resolving import (
    ORIGINAL,
    Table,
    TableArchive,
    X,
    Y,
    Z,
    app_over,
    archives_of,
    goes_on,
    leads,
    resolver_of,
)

from flask_ibi_archive.resolver.commands import ibi_resolver

HERE = "http://here.br/a.pdf"
Opens = Callable[..., tuple[Flask, list[TableArchive]]]


@pytest.fixture
def opens(hosts: Servers, tmp_path: Path) -> Iterator[Opens]:
    """Create apps with a resolver of Archives that answer from tables."""
    with ExitStack() as stack:

        def one(*tables: Table, **config: Any) -> tuple[Flask, list[TableArchive]]:
            archives = archives_of(hosts, *tables)
            return stack.enter_context(app_over(archives, tmp_path, **config)), archives

        yield one


def resolve(app: Flask, *words: str) -> Outcome:
    return command(app, "resolve", *words, group=ibi_resolver)


def tell(text: str, archives: list[TableArchive]) -> str:
    """Replace the parts of a text that differ from run to run."""
    for number, archive in enumerate(archives, 1):
        text = text.replace(archive.address, f"archive{number}.br")
    return re.sub(r"\d+ ms", "7 ms", text)


@pytest.mark.parametrize(
    "url",
    [
        f"{X}!",
        f"http://urlib.net/{X}!",
        f"HTTPS://localhost:5000/ibi/{X.upper()}%21",
        f"{X}?ibiurl.verblist=GetLastEdition",
        f"{X}!{ORIGINAL}",
    ],
)
def test_the_target_is_printed_and_not_acknowledged(opens: Opens, url: str) -> None:
    app, archives = opens({f"{X}!": goes_on(Y)}, {f"{Y}!": leads(HERE, relation=".lastedition")})
    assert resolve(app, url).data == f"{HERE}\n"
    resolver_of(app).close()
    assert all(one.thanks.empty() for one in archives)


def test_ip_and_language_options_are_used(opens: Opens) -> None:
    offered = leads("http://a.br/en", relation=".translation")
    offered += f"\r\n{leads('http://a.br/pt', relation='.translation(pt)', key='')}"
    app, [archive] = opens({f"{X}+": offered})
    words = ("--language", "de, pt-BR;q=0.5", "--ip", "150.163.2.175 10.0.0.1")
    assert resolve(app, f"{X}+", *words).data == "http://a.br/pt\n"
    assert resolve(app, f"{X}+").data == "http://a.br/en\n"
    for target, told in zip(archive.asked, ("150.163.2.175%2010.0.0.1", "127.0.0.1"), strict=True):
        assert f"?clientinformation.ipaddress={told}&" in target
    usage = resolve(app, X, "--ip", "here").usage
    assert "--ip" in usage
    assert "'here'" in usage


def test_an_alert_is_one_line_and_status_1(opens: Opens) -> None:
    app, archives = opens(
        {X: leads(HERE), Y: "state Deleted timestamp 2010-01-02T03:04:05Z"},
        {X: leads(HERE), Z: http("", "500 No")},
    )
    one, other = (f"{archive.service} at {archive.address}" for archive in archives)
    for url, line in [
        ("8JMKD3MGP8W/35MMLL8", "no Archive has 8JMKD3MGP8W/35MMLL8"),
        (Y, f"{Y} was removed on 2010-01-02"),
        (Z, f"{Z} was not found, but 1 of 2 Archives did not answer"),
    ]:  # fmt: skip
        assert resolve(app, url).error == line
    suspects = resolve(app, f"{X}{ORIGINAL}").error
    assert suspects.startswith(f"more than one source claims to have the Original of {X}: ")
    assert one in suspects
    assert other in suspects
    for url, part in (
        (f"{X}:+!", "is not a persistent URL"),
        ("x", "is not a persistent URL"),
        ("", ""),
    ):
        assert part in resolve(app, url).error
    assert "Missing argument 'URL'" in resolve(app).usage


def test_json_has_all_facts_of_the_outcome(opens: Opens) -> None:
    app, [archive, _] = opens(
        {X: f"{leads(HERE)}\r\nibi {{rep {X} ibip 8JMKD3MGP8W/35MMLL8}}", Y: "state Deleted"}, {}
    )
    assert json.loads(resolve(app, f"{X}?a=1", "--json").data) == {
        "url": f"{HERE}?a=1",
        "state": "Original",
        "content_type": "Data",
        "ibi": [X, "8JMKD3MGP8W/35MMLL8"],
        "archive": {"service": archive.service, "address": archive.address},
    }
    outcome = resolve(app, Y, "--json")
    assert (outcome.status, outcome.err) == (1, f"Error: {Y} was removed\n")
    assert json.loads(outcome.out) == {
        "url": None,
        "alert": "removed",
        "status": 410,
        "ibi": Y,
        "archives": [{"service": archive.service, "address": archive.address}],
        "lack": None,
        "found": [],
        "silent": 0,
        "asked": 2,
        "timestamp": None,
    }


def test_the_trace_prints_messages_and_decisions_in_order(opens: Opens) -> None:
    app, archives = opens({f"{X}!:": goes_on(Y), f"{Y}!:": ""})
    outcome = resolve(app, f"{X}!:", "--trace")
    [service] = [one.service for one in archives]
    query = "clientinformation.ipaddress=127.0.0.1&parsedibiurl.ibi={ibi}"
    rest = "parsedibiurl.verblist=GetLastEdition%20GetMetadata&servicesubject=urlRequest"
    url = f"http://archive1.br/{service}?{query}&{rest}"
    alert = f"no Archive has {Y}"
    assert (outcome.status, outcome.out) == (1, "")
    assert tell(outcome.err, archives).splitlines() == [
        "-> archive1.br",
        f"     {url.format(ibi=X)}",
        "<- archive1.br, 7 ms",
        f"     ibi.nextedition {{rep {Y}}}",
        f"== round 1: ask for {Y} GetLastEdition GetMetadata",
        "-> archive1.br",
        f"     {url.format(ibi=Y)}",
        "<- archive1.br, 7 ms",
        "     (this Archive does not know the item)",
        f"== round 2: {alert}",
        f"Error: {alert}",
    ]


def test_the_trace_prints_failures_hints_and_skipped_archives(opens: Opens) -> None:
    app, archives = opens({X: leads(HERE)}, {X: None, Y: http("", "302 Found")}, {})
    resolver = resolver_of(app)
    resolver.metrics.add_prefixes(2, ["a.br/y"])
    resolver.metrics.flush()
    for _ in range(3):
        resolver.circuit_breaker.record_result(3, False)
    outcome = resolve(app, Y, "--trace")
    lines = tell(outcome.err, archives).splitlines()
    why = "asked first, because it claims the item, or gave similar ones"
    assert lines[0] == f"-> archive2.br ({why})"
    assert lines[2] == "<- archive2.br redirects (status 302) (7 ms)"
    assert "-- archive3.br is skipped because it failed repeatedly" in lines
    silent = f"{Y} was not found, but 2 of 3 Archives did not answer"
    assert lines[-2:] == [f"== round 1: {silent}", f"Error: {silent}"]
    outcome = resolve(app, X, "--trace", "--json")
    assert json.loads(outcome.out)["url"] == HERE
    assert tell(outcome.err, archives).splitlines()[-1] == (
        f"== round 1 (1 Archives have not answered): redirect to {HERE}, Original, at archive1.br"
    )


def test_the_trace_prints_ignored_urls(opens: Opens) -> None:
    app, archives = opens({X: leads("http://files.corp/a.txt")})
    lines = tell(resolve(app, X, "--trace").err, archives).splitlines()
    assert "     (url is ignored, because a redirect to this URL is not allowed)" in lines
