"""Conflicts between the claims of Archives."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import Connection

from flask_ibi_archive.resolver.config import ResolverConfig
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.signals import Notifier


def update_conflicts(
    connection: Connection, archive_id: int, names: Collection[str], now: datetime
) -> None:
    """Note new conflicts of names, and end those that are none any more."""


def tell_administrators(
    database: Database, config: ResolverConfig, notifier: Notifier, now: datetime
) -> None:
    """Notify the administrators of new conflicts."""
