"""verify and check-links: no output if all is well, else a line for each fault."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask
from support.archives import archive_of, import_records
from support.commands import command
from support.far import Far, Reply, unused_address
from support.web import rep

from flask_ibi_archive.archive import care as links

NewApp = Callable[..., Flask]


def contents(app: Flask) -> list[Path]:
    folder = archive_of(app).files_folder
    return [folder.path(kept.sha256) for kept in folder.walk()]


def add_unneeded(app: Flask) -> Path:
    """Add an old stored file that no item needs."""
    path = archive_of(app).files_folder.path("0" * 64)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"lost")
    os.utime(path, (0, 0))
    return path


def test_verify_writes_a_line_for_each_fault_and_ends_with_1(filled: Flask) -> None:
    assert command(filled, "verify").data == ""
    first, second = contents(filled)[:2]
    first.unlink()
    second.write_bytes(b"")
    outcome = command(filled, "verify")
    assert (outcome.status, outcome.err) == (1, "")
    lines = [line.split("\t") for line in outcome.out.splitlines()]
    assert {(kind, file) for kind, _, _, file in lines} == {
        ("missing", str(first)),
        ("damaged", str(second)),
    }
    outcome = command(filled, "verify", "--json")
    said = json.loads(outcome.out)
    assert outcome.status == 1
    assert [list(fault.values()) for fault in said["faults"]] == lines
    assert (said["unneeded"], said["claims"]) == (0, [])


def test_verify_prune_deletes_unneeded_files(filled: Flask) -> None:
    path = add_unneeded(filled)
    assert command(filled, "verify").data == ""
    assert json.loads(command(filled, "verify", "--json").data)["unneeded"] == 1
    assert path.exists()
    assert command(filled, "verify", "--prune").data == ""
    assert not path.exists()
    assert command(filled, "verify").data == ""


def test_verify_writes_counts_to_a_terminal(filled: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda stream: True)
    add_unneeded(filled)
    outcome = command(filled, "verify")
    assert (outcome.status, outcome.out) == (0, "")
    assert "Verifying" in outcome.err
    assert outcome.err.endswith(
        "0 files are missing or damaged; 1 stored files that no item needs "
        "(verify --prune deletes them)\n"
    )
    assert "1 stored files that no item needs (deleted)" in command(filled, "verify", "--prune").err


# --- check-links ---------------------------------------------------------------------------------


def test_check_links_writes_a_line_for_each_address_that_does_not_work(
    app: Flask, far: Far
) -> None:
    url = far.url
    far.replies |= {"works": Reply(), "moved": Reply(301, {"Location": "gone"})}
    deleted = {"state": "Deleted", "timestamp": "2010-01-02T03:04:05Z"}
    import_records(
        archive_of(app),
        [
            {"rep": rep(1), "files": [{"path": name, "url": url(name)} for name in ("works", "a")]},
            {"rep": rep(2), "files": [{"path": "a", "url": url("a")}, {"path": "only named"}]},
            {"rep": rep(3), "metadata": {"url": url("m"), "formats": {"oai_dc": url("works")}}},
            {"rep": rep(4), "content_type": "Metadata", "formats": {"oai_dc": url("moved")}},
            {"rep": rep(5), "files": [{"path": "a", "url": url("deleted")}], **deleted},
        ],
    )
    lost = "answers 404 (Not Found)"
    broken = [
        {"url": url("a"), "error": lost, "items": [rep(1), rep(2)]},
        {"url": url("m"), "error": lost, "items": [rep(3)]},
        {"url": url("moved"), "error": f"redirects to {url('gone')}, which {lost}"}
        | {"items": [rep(4)]},
    ]
    outcome = command(app, "check-links", "--json")
    assert (outcome.status, json.loads(outcome.out)) == (1, broken)
    assert sorted(line for line in far.lines if "HEAD" in line) == [
        f"HEAD {path}" for path in ("a", "gone", "m", "moved", "works")
    ]
    outcome = command(app, "check-links")
    assert (outcome.status, outcome.err) == (1, "")
    assert outcome.out.splitlines() == [
        f"{one['url']}\t{one['error']}\t{', '.join(one['items'])}" for one in broken
    ]


def test_check_links_sends_a_host_one_request_at_a_time(app: Flask, far: Far) -> None:
    busy: set[str] = set()

    def answer(host: str) -> Reply:
        assert host not in busy
        busy.add(host)
        busy.remove(host)
        return Reply()

    hosts = ("127.0.0.1", "localhost")
    found = {far.url(f"{host}-{number}", host): ["x"] for number in range(20) for host in hosts}
    for url in found:
        host, _, path = url.removeprefix("http://").partition("/")
        far.replies[path] = lambda host=host: answer(host)  # type: ignore[misc]
    archive = archive_of(app)
    told: list[tuple[int, int]] = []
    broken = links.find_broken(
        found, "x", archive.config.inner_hosts, lambda *words: told.append(words)
    )
    assert list(broken) == []
    assert told == [(number, 40) for number in range(1, 41)]


def test_a_host_that_is_down_gets_few_requests(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    find = links.find_link_error

    def note(url: str, *words: object) -> object:
        asked.append(url)
        return find(url, *words)  # type: ignore[arg-type]

    monkeypatch.setattr(links, "find_link_error", note)
    address = unused_address()
    found = {f"http://{address}/{number}": ["x"] for number in range(20)}
    broken = list(links.find_broken(found, "x", archive_of(app).config.inner_hosts))
    assert len(broken) == 20
    assert (len(asked), broken[0].error, broken[-1].error) == (
        links.MAX_FAILURES,
        "can't be reached (Connection refused)",
        "the host can't be reached",
    )
