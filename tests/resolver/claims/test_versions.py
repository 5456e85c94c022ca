"""The version of the list of Archives."""

from __future__ import annotations

from sqlalchemy import select
from support.registries import a_registry, included

from flask_ibi_archive.resolver.old_claims.tables import ResolverState
from flask_ibi_archive.resolver.old_claims.versions import bump_version
from flask_ibi_archive.server.database.database import Database


def test_a_change_increases_the_version(database: Database) -> None:
    ids = included(a_registry(database), 3)
    with database.writing() as connection:
        before = connection.scalar(select(ResolverState.version))
        assert bump_version(connection, [ids[2], ids[0], ids[0], 999]) == before + 1
        assert bump_version(connection, [ids[1], ids[0]]) == before + 2
        assert bump_version(connection, []) == before + 3
        assert connection.scalar(select(ResolverState.version)) == before + 3
