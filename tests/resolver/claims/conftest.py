"""A resolver that follows logs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.archive_servers import Servers
from support.followers import Following

from flask_ibi_archive.server.database.database import Database


@pytest.fixture
def following(database: Database, hosts: Servers, tmp_path: Path) -> Iterator[Following]:
    """A resolver that follows logs, which has no Archives yet."""
    following = Following(database, hosts, tmp_path / "claims")
    yield following
    following.close()
