"""What follows from reading a log: its checkpoint is cosigned, and conflicts are told."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest
from support.archive_servers import Servers
from support.claim_logs import ClaimLog, a_claim
from support.followers import Following
from support.signed_logs import format_request
from support.smtp import post_office

from flask_ibi_archive.core.claims.checkpoint import open_checkpoint
from flask_ibi_archive.core.claims.merkle import prove_consistency
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.resolver.claims.resolver_key import FILE, create_key
from flask_ibi_archive.resolver.claims.tables import CURRENT, FORKED, Cosigned, Fork
from flask_ibi_archive.resolver.claims.witness import add_checkpoint, find_cosigned
from flask_ibi_archive.server.database.database import Database

OTHER = "b.br/service/2001/01.01.00.00"


def cosigned_size(following: Following, log: ClaimLog) -> int | None:
    """Return the size of the latest tree of a log that the resolver cosigned."""
    origin_hash = sha256(log.origin.encode()).hexdigest()
    text = following.database.read(lambda connection: find_cosigned(connection, origin_hash))
    if text is None:
        return None
    opened = open_checkpoint(text, log.signer.verifier)
    witness = create_key(following.config).verifier
    assert witness.find_time(opened.note) == int(following.clock.now.timestamp())
    assert opened.checkpoint.root == log.root(opened.checkpoint.size)
    return opened.checkpoint.size


def submit(following: Following, log: ClaimLog, old: int) -> None:
    """Let the Archive ask the witness for a cosignature."""
    proof = prove_consistency(old, log.size, log.read_hash)
    body = format_request(old, proof, log.checkpoint())
    seconds = int(following.clock.now.timestamp())
    add_checkpoint(following.database, create_key(following.config), body, seconds)


def test_a_log_that_was_read_is_cosigned(following: Following) -> None:
    log = following.new_log().add(a_claim())
    following.include(log)
    following.follow()
    assert cosigned_size(following, log) is None  # there is no key yet
    create_key(following.config)
    log.add(a_claim(1))
    following.follow(60)
    assert cosigned_size(following, log) == 2
    following.follow(60)
    [row] = following.rows(Cosigned)
    assert row.size == 2
    # the Archive asks the witness before the follower reads
    log.add(a_claim(2))
    submit(following, log, 2)
    assert cosigned_size(following, log) == 3
    log.add(a_claim(3))
    following.follow(60)
    assert cosigned_size(following, log) == 4


def test_a_log_that_is_read_in_batches_is_cosigned(following: Following) -> None:
    create_key(following.config)
    log = following.new_log().add(a_claim())
    following.include(log)
    following.follow()
    log.add(*map(a_claim, range(1, 9000)))
    following.follow(60)
    assert cosigned_size(following, log) == 9000


def test_a_tree_that_contradicts_a_cosigned_one_is_a_fork(following: Following) -> None:
    create_key(following.config)
    log = following.new_log().add(a_claim())
    archive_id = following.include(log)
    following.follow()
    fork = log.fork(1).add(a_claim(1), a_claim(2))
    submit(following, fork, 1)
    log.add(a_claim(3), a_claim(4), a_claim(5))
    following.follow(60)
    row = following.row(archive_id)
    assert (row.state, row.size) == (FORKED, 1)
    [evidence] = following.rows(Fork)
    signed = open_checkpoint(evidence.earlier, log.signer.verifier).checkpoint
    assert (signed.size, signed.root) == (3, fork.root())
    assert evidence.later == log.checkpoint()
    [row] = following.rows(Cosigned)
    assert row.root == fork.root()


def test_a_witness_remembers_the_log_of_an_archive_that_was_removed(following: Following) -> None:
    create_key(following.config)
    log = following.new_log().add(a_claim(), a_claim(1))
    following.include(log)
    following.follow()
    following.registry.remove(log.origin)
    archive_id = following.include(log.fork(1).add(a_claim(2), a_claim(3)))
    following.follow()
    assert following.row(archive_id).state == FORKED
    assert cosigned_size(following, log) == 2


def test_a_key_that_can_not_be_read_does_not_stop_the_follower(
    following: Following, caplog: pytest.LogCaptureFixture
) -> None:
    create_key(following.config)
    (following.config.claims_folder / FILE).write_text("damaged\n")
    log = following.new_log().add(a_claim())
    archive_id = following.include(log)
    following.follow()
    assert (following.row(archive_id).state, following.row(archive_id).size) == (CURRENT, 1)
    assert following.rows(Cosigned) == []
    assert "does not contain the key of the resolver" in caplog.text
    assert "damaged" not in caplog.text


def test_the_follower_tells_of_conflicts(
    database: Database, hosts: Servers, tmp_path: Path
) -> None:
    with post_office() as post:
        host, port = post.address
        following = Following(
            database,
            hosts,
            tmp_path,
            **{"MAIL_SERVER": host, "MAIL_PORT": port, "IBI_RESOLVER_EMAIL": "urlib@example.org"},
        )
        first, second = following.new_log().add(a_claim()), following.new_log(OTHER)
        following.include(first)
        following.include(second, OTHER)
        following.follow()
        # an item moves: the claim of the new Archive is read first
        second.add(a_claim())
        following.follow(60)
        first.add(a_claim(0, State.COPY, original_archive=OTHER))
        following.follow(3)
        following.follow(60)
        assert post.accepted.empty()
        first.add(a_claim())  # now both claim it
        following.follow(60)
        following.follow(3)
        assert post.accepted.qsize() == 1
        following.follow(60)
        assert post.accepted.qsize() == 1
        following.close()
