"""The resolver as a witness: it never cosigns two trees of a log that contradict each other."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from threading import Barrier

import pytest
from flask import Flask
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cases import for_each
from support.commands import command
from support.databases import new_database
from support.registries import a_registry, included, resolver_database
from support.resolving import app_over, resolver_of
from support.signed_logs import SECONDS, SignedLog, format_request, pin_key
from werkzeug.test import TestResponse

from flask_ibi_archive.core.claims.checkpoint import Checkpoint, open_checkpoint, parse_checkpoint
from flask_ibi_archive.core.claims.keys import SigningKey, VerifierKey, parse_key
from flask_ibi_archive.core.claims.merkle import EMPTY_ROOT
from flask_ibi_archive.core.claims.signed_note import SignedNote, parse_note, parse_signatures
from flask_ibi_archive.resolver.claims import witness
from flask_ibi_archive.resolver.claims.resolver_key import create_key, read_key
from flask_ibi_archive.resolver.claims.witness import (
    WitnessRefusal,
    add_checkpoint,
    cosign_verified,
    find_cosigned,
    find_cosigned_size,
)
from flask_ibi_archive.resolver.commands import ibi_resolver
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.migrate import RESOLVER

PATH = "/ibi/claims/witness"
ORIGIN = "dpi.inpe.br/banon/1999/01.09.22.14"
LOG = SignedLog(SigningKey(ORIGIN, b"k" * 32))
STRANGER = SignedLog(SigningKey(ORIGIN, b"s" * 32))
UNKNOWN = SignedLog(SigningKey("a.br/unknown/2001/01.01.00.00", b"u" * 32))
WITNESS = SigningKey("J8LNKB5R7W/3FUQHC5@urlib.net", b"w" * 32)


@pytest.fixture
def app(uri: str, tmp_path: Path) -> Iterator[Flask]:
    """A resolver with a key, which has pinned the key of LOG."""
    with (
        resolver_database(uri),
        app_over([], tmp_path, IBI_RESOLVER_DATABASE_URI=uri, SERVER_NAME="urlib.net") as app,
    ):
        database = resolver_of(app).database
        pin_key(database, included(a_registry(database))[0], LOG.key)
        create_key(resolver_of(app).config)
        yield app


def post(app: Flask, body: bytes) -> TestResponse:
    return app.test_client().post(f"http://urlib.net{PATH}/add-checkpoint", data=body)


def fetch(app: Flask, path: str, **options: object) -> TestResponse:
    return app.test_client().get(f"http://urlib.net{PATH}/{path}", **options)


def key_of(app: Flask) -> VerifierKey:
    return parse_key(fetch(app, "key").text.removesuffix("\n"))


def address(origin: str = ORIGIN) -> str:
    return f"{sha256(origin.encode()).hexdigest()}/checkpoint"


# --- add-checkpoint ------------------------------------------------------------------------------


def test_a_log_that_grows_is_cosigned(app: Flask) -> None:
    key = key_of(app)
    assert key.name == "J8LNKB5R7W/3FUQHC5@urlib.net"
    for old, size in ((0, 0), (0, 3), (3, 3), (3, 4), (4, 300), (300, 301)):
        response = post(app, LOG.request(old, size))
        assert (response.status_code, response.mimetype) == (200, "text/plain")
        # the answer is one line, which can be appended to the checkpoint
        [line] = response.text.splitlines()
        note = parse_note(LOG.sign(size) + response.text)
        assert (key.find_time(note) or 0) > SECONDS - 10**9
        assert line.startswith("— ")
        kept = fetch(app, address()).text
        assert open_checkpoint(kept, LOG.key.verifier).checkpoint == LOG.tree(size)
        assert parse_note(kept).signatures[-1:] == parse_signatures(response.text)


def test_the_checkpoint_of_a_log_that_was_never_cosigned_is_not_found(app: Flask) -> None:
    assert fetch(app, address()).status_code == 404
    assert post(app, LOG.request(0, 2, "").replace(b"old 0", b"old 2")).status_code == 400
    assert post(app, LOG.request(1, 2)).status_code == 409
    assert fetch(app, address()).status_code == 404
    for wrong in ("x", "%00", "é" * 64):
        assert fetch(app, f"{wrong}/checkpoint").status_code == 404


def resign(text: str, *keys: SigningKey) -> str:
    return SignedNote(text, tuple(key.sign(text) for key in keys)).format()


def false_note() -> str:
    """Return a checkpoint whose signatures belong to another text."""
    return LOG.sign(8).replace("\n8\n", "\n9\n")


def falsely_timed() -> str:
    """Return a checkpoint whose plain signature is right, and whose timestamped one is not."""
    text = LOG.tree(8).format()
    lines = LOG.key.sign(text), LOG.key.cosign("other\n", 5)
    return SignedNote(text, lines).format()


PROOF = LOG.request(5, 8).decode().split("\n\n")[0].split("\n")[1:]
STRANGERS_LINE = STRANGER.sign(8).split("\n\n")[1]
FALSE_LINE = LOG.key.sign("other\n").format()
EMPTY = Checkpoint(ORIGIN, 0, b"x" * 32)


@for_each(
    ("name", "body", "status"),
    [
        ("next", LOG.request(5, 8), 200),
        ("same", LOG.request(5, 5), 200),
        ("signature of another", LOG.request(5, 8, LOG.sign(8) + STRANGERS_LINE), 200),
        ("plain signature alone", LOG.request(5, 8, resign(LOG.tree(8).format(), LOG.key)), 200),
        ("further lines", LOG.request(5, 8, resign(f"{LOG.tree(8).format()}more\n", LOG.key)), 200),
        ("empty", b"", 400),
        ("no checkpoint", b"old 5\n\n", 400),
        ("no empty line", LOG.request(5, 5).replace(b"old 5\n\n", b"old 5\n"), 400),
        ("no old", LOG.request(5, 8).replace(b"old ", b"new "), 400),
        ("leading zero", LOG.request(5, 8).replace(b"old 5", b"old 05"), 400),
        ("sign", LOG.request(5, 8).replace(b"old 5", b"old +5"), 400),
        ("digits of another script", LOG.request(5, 8).replace(b"old 5", "old ٥".encode()), 400),
        ("spaces", LOG.request(5, 8).replace(b"old 5", b"old  5"), 400),
        ("carriage returns", LOG.request(5, 8).replace(b"\n", b"\r\n"), 400),
        ("huge size", LOG.request(5, 8).replace(b"old 5", b"old " + b"9" * 30), 400),
        ("no base64", LOG.request(5, 8).replace(PROOF[0].encode(), b"?"), 400),
        ("short hash", LOG.request(5, 8).replace(PROOF[0].encode(), b"AAAA"), 400),
        ("64 hashes", format_request(5, [b"x" * 32] * 64, LOG.sign(8)), 400),
        ("not UTF-8", LOG.request(5, 8) + b"\xff", 400),
        ("no signature", format_request(5, [], f"{LOG.tree(8).format()}\n"), 400),
        ("old above the size", LOG.request(5, 8).replace(b"old 5", b"old 9"), 400),
        ("malformed root", LOG.request(5, 8, resign(f"{ORIGIN}\n8\nAAAA\n", LOG.key)), 400),
        ("malformed size", LOG.request(5, 8, resign(f"{ORIGIN}\n08\nAAAA\n", LOG.key)), 400),
        ("unknown log", UNKNOWN.request(5, 8), 404),
        ("other key", STRANGER.request(5, 8), 403),
        ("false signature", LOG.request(5, 8, false_note()), 403),
        ("false timestamped signature", LOG.request(5, 8, falsely_timed()), 403),
        ("false second signature", LOG.request(5, 8, LOG.sign(8) + FALSE_LINE), 403),
        ("too old", LOG.request(4, 8), 409),
        ("from the beginning", LOG.request(0, 8), 409),
        ("too new", LOG.request(6, 8), 409),
        ("smaller", LOG.request(3, 4), 409),
        ("no proof", format_request(5, [], LOG.sign(8)), 422),
        ("proof of another size", format_request(5, [], LOG.sign(8)), 422),
        ("one hash missing", LOG.request(5, 8).replace(f"{PROOF[-1]}\n".encode(), b""), 422),
        ("one hash more", LOG.request(5, 8).replace(b"\n\n", b"\n" + b"A" * 43 + b"=\n\n", 1), 422),
        ("63 hashes", format_request(5, [b"x" * 32] * 63, LOG.sign(8)), 422),
        ("another tree", LOG.fork(2).request(5, 8), 422),
        ("another tree of the same size", LOG.fork(2).request(5, 5), 422),
        ("proof for the same size", format_request(5, [b"x" * 32], LOG.sign(5)), 422),
    ],
)  # fmt: skip
def test_a_request_has_the_status_of_the_specification(
    app: Flask, name: str, body: bytes, status: int
) -> None:
    forget(app)
    assert post(app, LOG.request(0, 5)).status_code == 200
    response = post(app, body)
    assert (name, response.status_code) == (name, status)
    if status == 409:
        assert (response.mimetype, response.data) == ("text/x.tlog.size", b"5\n")
    if status != 200:
        assert "— " not in response.text
        # nothing changed
        assert parse_checkpoint(parse_note(fetch(app, address()).text).text) == LOG.tree(5)


@for_each(
    ("body", "status"),
    [
        (LOG.request(0, 0), 200),
        (LOG.request(0, 0, EMPTY.sign(LOG.key, SECONDS)), 422),
        (LOG.request(1, 0), 400),
        (format_request(0, [b"x" * 32], LOG.sign(0)), 422),
        (format_request(0, [b"x" * 32], LOG.sign(3)), 422),
        (LOG.request(2, 3), 409),
    ],
)
def test_the_first_request_for_a_log(app: Flask, body: bytes, status: int) -> None:
    forget(app)
    response = post(app, body)
    assert response.status_code == status
    if status == 409:
        assert response.data == b"0\n"


def forget(app: Flask) -> None:
    with resolver_of(app).database.writing() as connection:
        connection.exec_driver_sql("DELETE FROM ibi_resolver_cosigned")


def test_a_request_that_is_too_long_is_refused(app: Flask) -> None:
    assert post(app, b"x" * (witness.MAX_BODY + 1)).status_code == 413
    assert post(app, b"x" * witness.MAX_BODY).status_code == 400
    assert fetch(app, "add-checkpoint").status_code == 405


def test_an_archive_that_is_not_included_is_unknown(app: Flask) -> None:
    with resolver_of(app).database.writing() as connection:
        connection.exec_driver_sql("UPDATE ibi_resolver_archive SET included_at = NULL,"
                                   " confirmed_at = NULL")  # fmt: skip
    assert post(app, LOG.request(0, 5)).status_code == 404


def test_the_same_checkpoint_is_not_signed_again_within_a_minute(app: Flask) -> None:
    database = resolver_of(app).database
    first, soon, later = (
        add_checkpoint(database, WITNESS, LOG.request(old, 5), SECONDS + after)
        for old, after in ((0, 0), (5, 59), (5, 60))
    )
    assert first == soon != later
    # the checkpoint of a log that was restored to an earlier clock
    assert add_checkpoint(database, WITNESS, LOG.request(5, 5), SECONDS) == first


# --- the key -------------------------------------------------------------------------------------


def test_init_creates_a_key_once_which_nobody_else_can_read(tmp_path: Path) -> None:
    folder = tmp_path / "claims"
    with app_over([], tmp_path, IBI_RESOLVER_CLAIMS_FOLDER=str(folder)) as app:
        assert app.test_client().get(f"{PATH}/key").status_code == 404
        assert app.test_client().post(f"{PATH}/add-checkpoint").status_code == 404
        assert command(app, "init", group=ibi_resolver).status == 0
        [file] = folder.iterdir()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        text = file.read_text()
        assert command(app, "init", group=ibi_resolver).status == 0
        assert [file.read_text() for file in folder.iterdir()] == [text]
        key = read_key(resolver_of(app).config)
        assert key is not None
        assert key.name == "J8LNKB5R7W/3FUQHC5"
        shown = app.test_client().get(f"{PATH}/key")
        assert parse_key(shown.text.removesuffix("\n")) == key.verifier
        for wrong in ("", "x", text.replace("+", "-"), text.replace("PRIVATE", "PUBLIC")):
            file.write_text(wrong)
            assert app.test_client().get(f"{PATH}/key").status_code == 503
            outcome = command(app, "init", group=ibi_resolver)
            assert outcome.error == f"{file} does not contain the key of the resolver"


def test_processes_that_create_the_key_at_once_have_the_same_key(tmp_path: Path) -> None:
    with app_over([], tmp_path) as app, ThreadPoolExecutor(8) as pool:
        keys = list(pool.map(create_key, [resolver_of(app).config] * 8))
    assert len(set(keys)) == 1


# --- what the follower has verified --------------------------------------------------------------


def cosign(database: Database, log: SignedLog, size: int, *sizes: int) -> str | None:
    """Cosign as the follower, which knows the roots at some sizes."""
    with database.writing() as connection:
        return cosign_verified(
            connection,
            WITNESS,
            log.key.verifier,
            open_checkpoint(log.sign(size), log.key.verifier),
            {one: log.tree(one).root for one in sizes},
            SECONDS,
        )


@for_each(
    ("latest", "fork", "size", "known", "expected", "contradicts"),
    [
        (None, None, 0, (), 0, False),
        (None, None, 7, (), 7, False),
        (5, None, 7, (5,), 7, False),  # it continues what was cosigned
        (5, None, 7, (4, 7), 5, False),  # the root at 5 is not known: not cosigned
        (5, None, 5, (), 5, False),
        (5, None, 4, (4,), 5, False),  # an older checkpoint
        (5, 2, 5, (), 5, True),
        (5, 2, 7, (5,), 5, True),
        (5, 2, 4, (5,), 5, True),
        (5, 6, 7, (5,), 7, False),  # the first to be cosigned
    ],
)
def test_the_follower_cosigns_what_continues_the_cosigned_tree(
    app: Flask,
    latest: int | None,
    fork: int | None,
    size: int,
    known: Sequence[int],
    expected: int,
    contradicts: bool,
) -> None:
    forget(app)
    database = resolver_of(app).database
    if latest is not None:
        add_checkpoint(database, WITNESS, LOG.request(0, latest), SECONDS)
    earlier = database.read(lambda connection: find_cosigned(connection, address()[:64]))
    log = LOG if fork is None else LOG.fork(fork)
    assert cosign(database, log, size, *known) == (earlier if contradicts else None)
    assert database.read(lambda connection: find_cosigned_size(connection, ORIGIN)) == expected


# --- at the same time ----------------------------------------------------------------------------

Step = tuple[bool, int, int]
#: Whether the follower asks, the number of the log, and how much it has grown.
STEPS = st.lists(st.tuples(st.booleans(), st.integers(0, 3), st.integers(0, 6)), max_size=12)
LOGS = (LOG, LOG.fork(0), LOG.fork(3), LOG.fork(9))


def walk(database: Database, steps: Sequence[Step], start: Barrier) -> list[tuple[int, bytes]]:
    """Send requests that know the latest cosigned size, and return the trees that were cosigned."""
    cosigned = []
    start.wait()
    for follows, number, growth in steps:
        log = LOGS[number]
        old = database.read(lambda connection: find_cosigned_size(connection, ORIGIN))
        size = old + growth
        if follows:
            cosign(database, log, size, old)
            text = database.read(lambda connection: find_cosigned(connection, address()[:64]))
            if text:
                tree = parse_checkpoint(parse_note(text).text)
                cosigned.append((tree.size, tree.root))
            continue
        with suppress(WitnessRefusal):
            add_checkpoint(database, WITNESS, log.request(old, size), SECONDS)
            cosigned.append((size, log.tree(size).root))
    return cosigned


@contextmanager
def followed(backend: str, folder: Path) -> Iterator[Database]:
    with (
        new_database(backend, folder, ready=True, history=RESOLVER) as uri,
        resolver_database(uri) as database,
    ):
        pin_key(database, included(a_registry(database))[0], LOG.key)
        yield database


def check_simultaneous(database: Database, walks: Sequence[Sequence[Step]]) -> None:
    """Check that the cosigned trees are trees of one log, and that sizes never decrease."""
    with database.writing() as connection:
        connection.exec_driver_sql("DELETE FROM ibi_resolver_cosigned")
    start = Barrier(len(walks))
    with ThreadPoolExecutor(len(walks)) as pool:
        done = [pool.submit(walk, database, steps, start) for steps in walks]
        cosigned = [one.result() for one in done]
    trees = {0: EMPTY_ROOT}
    for part in cosigned:
        assert [size for size, _ in part] == sorted(size for size, _ in part)
        for size, root in part:
            assert trees.setdefault(size, root) == root
    sizes = sorted(trees)
    assert any(all(log.tree(size).root == trees[size] for size in sizes) for log in LOGS)


def test_simultaneous_requests_never_cosign_contradicting_trees(
    backend: str, tmp_path: Path
) -> None:
    with followed(backend, tmp_path) as database:

        @given(STEPS, STEPS)
        def run(first: Sequence[Step], second: Sequence[Step]) -> None:
            check_simultaneous(database, (first, second))

        run()


@pytest.mark.slow
def test_many_simultaneous_requests_never_cosign_contradicting_trees(
    backend: str, tmp_path: Path
) -> None:
    with followed(backend, tmp_path) as database:

        @settings(max_examples=400)
        @given(st.lists(STEPS, min_size=2, max_size=4))
        def run(walks: Sequence[Sequence[Step]]) -> None:
            check_simultaneous(database, walks)

        run()
