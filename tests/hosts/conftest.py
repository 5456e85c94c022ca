"""The databases of the contract tests: SQLite and PostgreSQL."""

from __future__ import annotations

import pytest

pytest_plugins = ["flask_ibi_archive.testing"]


@pytest.fixture
def ibi_database_uri(uri: str) -> str:
    """Provide a new database of each kind."""
    return uri
