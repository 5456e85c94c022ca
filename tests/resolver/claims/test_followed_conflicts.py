"""Conflicts that the follower finds are told."""

from __future__ import annotations

from pathlib import Path

from support.archive_servers import Servers
from support.claim_logs import a_claim
from support.followers import Following
from support.smtp import post_office

from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.server.database.database import Database

OTHER = "b.br/service/2001/01.01.00.00"


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
