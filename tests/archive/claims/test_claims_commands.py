"""claims status, key and rotate; what check and verify say about the log."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask
from support.archives import SERVICE, archive_of
from support.commands import command
from support.published_claims import read_claims, read_entries

from flask_ibi_archive.core.claims.keys import parse_key

NewApp = Callable[..., Flask]


@pytest.fixture
def publishing(app: Flask) -> Flask:
    """An app whose Archive publishes the claim of an item."""
    archive_of(app).claims.create_key()
    archive_of(app).deposit(title="Rain")
    return app


def test_init_creates_the_key_and_says_nothing_else(new_app: NewApp) -> None:
    app = new_app()
    assert command(app, "init").data == f"{SERVICE}\n"
    key = parse_key(command(app, "claims", "key").data.strip())
    assert key.name == SERVICE
    assert command(app, "init").data == f"{SERVICE}\n"
    assert command(app, "claims", "key").data.strip() == key.format()


def test_status_counts_claims_and_waiting_changes(publishing: Flask) -> None:
    folder = Path(archive_of(publishing).config.claims_folder)
    read_entries(publishing)
    archive_of(publishing).deposit(title="Snow")
    status = json.loads(command(publishing, "claims", "status", "--json").data)
    size, begun_at, signed_at = status["size"], status["begun_at"], status["signed_at"]
    assert begun_at <= signed_at
    assert status == {
        "number": 1,
        "origin": SERVICE,
        "begun_at": begun_at,
        "key": command(publishing, "claims", "key").data.strip(),
        "size": size,
        "pending": 1,
        "signed_at": signed_at,
        "folder": str(folder),
        "disabled": None,
        "warning": None,
    }
    assert len(read_entries(publishing)) == size + 1
    after = json.loads(command(publishing, "claims", "status", "--json").data)
    assert (after["size"], after["pending"]) == (size + 1, 0)
    lines = command(publishing, "claims", "status").lines
    assert lines[:2] == ["number: 1", f"origin: {SERVICE}"]
    assert f"size: {size + 1}" in lines
    assert not [line for line in lines if line.startswith("warning")]


def test_the_private_key_is_never_printed(publishing: Flask) -> None:
    folder = Path(archive_of(publishing).config.claims_folder)
    secrets = [path.read_text() for path in folder.rglob("*") if "key" in path.name]
    assert secrets
    said = "".join(
        command(publishing, *words).out
        for words in (["claims", "status"], ["claims", "key"], ["check"], ["verify"])
    )
    for secret in secrets:
        assert secret.strip() not in said
    assert {path.stat().st_mode & 0o777 for path in folder.rglob("*") if path.is_file()} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700


def test_rotate_replaces_the_key_of_the_same_log(publishing: Flask) -> None:
    before, key = read_claims(publishing), command(publishing, "claims", "key").data
    assert "add --yes" in command(publishing, "claims", "rotate").error
    done = command(publishing, "claims", "rotate", "--yes")
    assert (done.status, done.err) == (0, "now run: flask ibi register-archive\n")
    assert done.out != key
    assert parse_key(done.out.strip()).name == parse_key(key.strip()).name
    archive_of(publishing).__dict__.pop("claims")
    assert command(publishing, "claims", "key").data == done.out
    assert read_claims(publishing) == before


def test_without_claims_the_commands_say_so(new_app: NewApp) -> None:
    app = new_app(IBI_CLAIMS=False)
    command(app, "init")
    assert command(app, "claims", "key").error == (
        "this Archive publishes no claims; flask ibi claims status says why"
    )
    assert "publishes no claims" in command(app, "claims", "rotate", "--yes").error
    assert json.loads(command(app, "claims", "status", "--json").data)["key"] is None
    assert command(app, "claims", "status").lines[-1] == "disabled: IBI_CLAIMS is false"
    reason = "because IBI_CLAIMS is false"
    assert f"ok   claims: this Archive publishes no claims, {reason}" in command(app, "check").out


def test_check_says_how_many_claims_there_are(publishing: Flask) -> None:
    read_entries(publishing)
    size = json.loads(command(publishing, "claims", "status", "--json").data)["size"]
    line = f"ok   claims: {size} claims are in the log {SERVICE}; 0 changes wait\n"
    assert line in command(publishing, "check").out


def test_check_says_how_to_publish_claims(app: Flask) -> None:
    [line] = [line for line in command(app, "check").out.splitlines() if " claims: " in line]
    assert line == "ok   claims: no claims are published; to publish them, run: flask ibi init"


def test_check_finds_middleware_that_answers_for_the_archive(publishing: Flask) -> None:
    def refuse(environ: object, start_response: object) -> list[bytes]:
        start_response("401 no", [("Content-Type", "text/plain")])  # type: ignore[operator]
        return [b"log in"]

    publishing.wsgi_app = refuse  # type: ignore[method-assign, assignment]
    assert (
        "FAIL claims: the app itself answers /ibi/claims/key, with status 401; resolvers can't "
        "read the claims (see docs/howto/your-app-has.rst)"
    ) in command(publishing, "check").out


def test_verify_reads_the_whole_log(publishing: Flask) -> None:
    read_entries(publishing)
    assert command(publishing, "verify").data == ""
    assert json.loads(command(publishing, "verify", "--json").data)["claims"] == []
    with archive_of(publishing).database.writing() as connection:
        connection.exec_driver_sql("UPDATE ibi_claim SET entry = entry || ' '")
    done = command(publishing, "verify")
    assert done.status == 1
    lines = done.out.splitlines()
    assert lines
    assert {line.partition("\t")[0] for line in lines} == {"claims"}
    as_json = json.loads(command(publishing, "verify", "--json").out)
    assert [f"claims\t{error}" for error in as_json["claims"]] == lines
