"""The log of claims on the web: its checkpoint, tiles, entries and key; caches and login walls."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import requests
from flask import Flask, abort, g, redirect, request
from pymerkle import InmemoryTree
from support.archives import archive_of, close, import_records, make_host
from support.cases import for_each
from support.loopback import PATIENCE, serving
from support.merkle_trees import find_root, root_of
from support.published_claims import ROOT, hash_entry, read_claims, read_entries

from flask_ibi_archive.core.claims.checkpoint import open_checkpoint
from flask_ibi_archive.core.claims.keys import parse_key
from flask_ibi_archive.core.claims.tiles import decode_entries, encode_entries

NewApp = Callable[..., Flask]
LONG = "public, max-age=31536000, immutable"
MANY = 270


def records(number: int) -> list[dict[str, Any]]:
    return [
        {"rep": f"a.br/x/{2001 + each // 60}/01.01.00.{each % 60:02}"} for each in range(number)
    ]


@pytest.fixture
def publishing(app: Flask) -> Flask:
    """An app whose Archive publishes the claims of three items."""
    archive_of(app).claims.create_key()
    import_records(archive_of(app), records(3))
    return app


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """An app with more claims than one tile has hashes, which no test changes."""
    folder = tmp_path_factory.mktemp("many")
    app = make_host(f"sqlite:///{folder / 'x.sqlite'}", folder)
    archive_of(app).init()
    archive_of(app).claims.create_key()
    import_records(archive_of(app), records(MANY))
    yield app
    close(app)


def test_the_checkpoint_is_signed_by_the_key_and_counts_the_claims(publishing: Flask) -> None:
    client = publishing.test_client()
    answer = client.get(f"{ROOT}/checkpoint")
    assert answer.status_code == 200
    assert answer.content_type == "text/plain; charset=utf-8"
    assert answer.headers["Cache-Control"] == "public, max-age=1"
    key = client.get(f"{ROOT}/key")
    assert key.content_type == "text/plain; charset=utf-8"
    opened = open_checkpoint(answer.text, parse_key(key.text.strip()))
    assert opened.checkpoint.size == len(read_entries(publishing)) == len(read_claims(publishing))
    assert set(read_claims(publishing)) >= {one["rep"] for one in records(3)}


def test_an_unchanged_checkpoint_is_not_sent_again(publishing: Flask) -> None:
    archive, client = archive_of(publishing), publishing.test_client()
    now = datetime.now(timezone.utc)
    archive.clock = lambda: now
    first = client.get(f"{ROOT}/checkpoint")
    headers = {"If-None-Match": first.headers["ETag"]}
    again = client.get(f"{ROOT}/checkpoint", headers=headers)
    assert (again.status_code, again.data) == (304, b"")
    assert again.headers["ETag"] == first.headers["ETag"]
    archive.clock = lambda: now + timedelta(seconds=61)
    signed_again = client.get(f"{ROOT}/checkpoint", headers=headers)
    assert signed_again.status_code == 200
    assert signed_again.text != first.text
    assert signed_again.text.split("\n")[:3] == first.text.split("\n")[:3]


def test_the_tiles_are_those_of_the_specification(many: Flask) -> None:
    client, entries = many.test_client(), read_entries(many)
    hashes = [hash_entry(entry) for entry in entries]
    rest = len(entries) - 256
    assert rest > 0
    for path, content in {
        "tile/0/000": b"".join(hashes[:256]),
        "tile/0/000.p/7": b"".join(hashes[:7]),
        f"tile/0/001.p/{rest}": b"".join(hashes[256:]),
        "tile/0/001.p/1": hashes[256],
        "tile/1/000.p/1": find_root(entries[:256]),
        "tile/entries/000": encode_entries(entries[:256]),
        "tile/entries/000.p/7": encode_entries(entries[:7]),
        f"tile/entries/001.p/{rest}": encode_entries(entries[256:]),
    }.items():
        answer = client.get(f"{ROOT}/{path}")
        assert (answer.status_code, answer.data) == (200, content), path
        assert answer.content_type == "application/octet-stream"
        assert answer.headers["Cache-Control"] == LONG
        assert answer.headers["Access-Control-Allow-Origin"] == "*"


def test_another_implementation_of_the_tree_has_the_same_root(many: Flask) -> None:
    tree = InmemoryTree(algorithm="sha256")
    for entry in read_entries(many):
        tree.append_entry(entry)
    assert root_of(tree) == find_root(read_entries(many))


@for_each(
    "path",
    [
        "tile/0/001", "tile/0/002", "tile/0/001.p/255", "tile/1/000", "tile/1/000.p/2",
        "tile/2/000.p/1", "tile/entries/001", "tile/entries/002.p/1", "tile/63/000",
        "tile/64/000", "tile/00/000", "tile/0/0", "tile/0/x000/000", "tile/0/000.p/0",
        "tile/0/000.p/256", "tile/0/000.p/07", "tile/-1/000", "tile/entries/", "tile/",
        "tile/0/x999/x999/x999/x999/x999/x999/x999/999", f"tile/0/{'x999/' * 2000}999",
    ],
)  # fmt: skip
def test_a_tile_beyond_the_log_or_with_another_path_is_not_found(path: str, many: Flask) -> None:
    answer = many.test_client().get(f"{ROOT}/{path}")
    assert answer.status_code == 404
    if path != "tile/":
        assert answer.text == "The log has no such tile.\n"
        assert answer.headers["Cache-Control"] == "no-store"


@for_each(
    ("accepted", "compressed"),
    [(None, False), ("gzip", True), ("br, gzip;q=0.5", True), ("gzip;q=0", False), ("*", True),
     ("identity", False)],
)  # fmt: skip
def test_entries_are_compressed_for_clients_that_accept_it(
    accepted: str | None, compressed: bool, many: Flask
) -> None:
    headers = {} if accepted is None else {"Accept-Encoding": accepted}
    answer = many.test_client().get(f"{ROOT}/tile/entries/000", headers=headers)
    assert answer.headers["Vary"] == "Accept-Encoding"
    assert (answer.headers.get("Content-Encoding") == "gzip") == compressed
    data = gzip.decompress(answer.data) if compressed else answer.data
    assert decode_entries(data, 256) == read_entries(many)[:256]
    tile = many.test_client().get(f"{ROOT}/tile/0/000", headers=headers)
    assert "Content-Encoding" not in tile.headers


@for_each("path", ["checkpoint", "key", "tile/0/000", "tile/entries/000"])
def test_head_has_the_headers_of_get(path: str, many: Flask) -> None:
    client = many.test_client()
    got, head = client.get(f"{ROOT}/{path}"), client.head(f"{ROOT}/{path}")
    assert (head.status_code, head.data) == (200, b"")
    assert head.headers["Content-Length"] == str(len(got.data))
    assert client.post(f"{ROOT}/{path}").status_code == 405


@for_each("path", ["checkpoint", "key", "tile/0/000", "tile/entries/000.p/1"])
def test_nothing_is_found_if_no_claims_are_published(path: str, new_app: NewApp) -> None:
    app = new_app(IBI_CLAIMS=False)
    archive_of(app).init()
    answer = app.test_client().get(f"{ROOT}/{path}")
    assert answer.status_code == 404
    assert answer.content_type == "text/plain; charset=utf-8"
    if not path.startswith("tile"):
        assert answer.text == "This Archive publishes no claims.\n"


def test_nothing_is_found_before_there_is_a_key(app: Flask) -> None:
    for path in ("checkpoint", "key", "tile/0/000"):
        assert app.test_client().get(f"{ROOT}/{path}").status_code == 404


def test_a_database_that_does_not_answer_is_temporary(publishing: Flask) -> None:
    archive_of(publishing).downgrade("base")
    archive_of(publishing).__dict__.pop("claims")
    for path in ("checkpoint", "tile/0/000.p/1", "tile/entries/000.p/1"):
        answer = publishing.test_client().get(f"{ROOT}/{path}")
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "10")
        assert answer.headers["Cache-Control"] == "no-store"


# --- hosts ---------------------------------------------------------------------------------------


def require_login(app: Flask) -> None:
    """Let nobody in: as a redirect, or as an error."""

    @app.before_request
    def refuse() -> Any:
        g.seen = True
        if request.args.get("how") == "abort":
            abort(403)
        return redirect("/login")

    @app.after_request
    def use(response: Any) -> Any:
        response.headers["X-Seen"] = str(g.seen)
        return response


def catch_all(app: Flask) -> None:
    """Answer all paths."""
    app.add_url_rule("/<path:path>", "page", lambda path: f"our page {path}")


def force_slashes(app: Flask) -> None:
    """Have a rule that matches these paths as well."""
    app.add_url_rule("/ibi/<section>/<name>", "section", lambda section, name: "our section")


@for_each("prepare", [require_login, catch_all, force_slashes])
def test_the_hooks_and_routes_of_the_host_do_not_hide_the_claims(
    prepare: Callable[[Flask], None], uri: str, tmp_path: Path
) -> None:
    for step in ({"before": prepare}, {"after": prepare}):
        app = make_host(uri, tmp_path, **step)  # type: ignore[arg-type]
        archive_of(app).init()
        archive_of(app).claims.create_key()
        client = app.test_client()
        for query in ("", "?how=abort"):
            answer = client.get(f"{ROOT}/checkpoint{query}")
            assert answer.status_code == 200
            assert answer.headers.get("X-Seen") == ("True" if prepare is require_login else None)
            assert client.get(f"{ROOT}/tile/entries/000.p/1{query}").status_code == 200
            assert client.get(f"{ROOT}/tile/entries/001{query}").status_code == 404
        assert client.get(f"{ROOT}/key").status_code == 200
        close(app)


def test_a_route_of_the_host_for_exactly_this_path_has_precedence(uri: str, tmp_path: Path) -> None:
    def own(app: Flask) -> None:
        app.add_url_rule(f"{ROOT}/key", "own", lambda: "ours")

    app = make_host(uri, tmp_path, after=own)
    assert app.test_client().get(f"{ROOT}/key").text == "ours"
    close(app)


def test_a_real_server_sends_the_log(many: Flask) -> None:
    with serving(many) as address:
        base = f"http://{address}{ROOT}"
        key = parse_key(requests.get(f"{base}/key", timeout=PATIENCE).text.strip())
        answer = requests.get(f"{base}/checkpoint", timeout=PATIENCE)
        answer.encoding = "utf-8"
        size = open_checkpoint(answer.text, key).checkpoint.size
        # requests accepts gzip and decodes it
        full = requests.get(f"{base}/tile/entries/000", timeout=PATIENCE)
        rest = requests.get(f"{base}/tile/entries/001.p/{size - 256}", timeout=PATIENCE)
        assert full.headers["Content-Encoding"] == "gzip"
        entries = decode_entries(full.content, 256) + decode_entries(rest.content, size - 256)
        assert entries == read_entries(many)
        again = {"If-None-Match": answer.headers["ETag"]}
        assert requests.get(f"{base}/checkpoint", headers=again, timeout=PATIENCE).status_code in (
            200, 304,
        )  # fmt: skip
