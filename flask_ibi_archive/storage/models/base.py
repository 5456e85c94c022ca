"""What all tables of ours share: a MetaData of their own, so that a host's are never mixed with
them.
"""

from __future__ import annotations

from sqlalchemy import MetaData
from sqlalchemy.orm import DeclarativeBase

metadata = MetaData()


class Base(DeclarativeBase):
    """The base of our models."""

    metadata = metadata
