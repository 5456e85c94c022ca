"""Warns of foreign keys with which the database deletes rows without telling the session."""

from __future__ import annotations

from logging import getLogger
from typing import Any

from sqlalchemy import Table
from sqlalchemy.orm import Mapper, RelationshipProperty

log = getLogger("flask_ibi_archive.host")

#: The models with IdentifiedItem that were not checked yet.
new_models: list[Mapper[Any]] = []


def warn_of_silent_deletions() -> None:
    """Log the new models whose rows the database can delete without telling the session."""
    while new_models:
        mapper = new_models.pop()
        keys = (
            key
            for table in mapper.tables
            if isinstance(table, Table)
            for key in table.foreign_key_constraints
        )
        for key in keys:
            parent = key.referred_table
            if str(key.ondelete).upper() != "CASCADE" or parent in mapper.tables:
                continue
            relationships = (
                relationship
                for other in mapper.registry.mappers
                if parent in other.tables
                for relationship in other.relationships
            )
            if not any(_deletes_rows(relationship, mapper) for relationship in relationships):
                log.warning(
                    "if a row of %s is deleted, the database deletes rows of %s (ON DELETE "
                    "CASCADE), but their items stay public; add a relationship with "
                    "cascade='all, delete' and without passive_deletes",
                    parent.name,
                    mapper.class_.__name__,
                )


def _deletes_rows(relationship: RelationshipProperty[Any], mapper: Mapper[Any]) -> bool:
    """Return whether the session deletes the rows of a model through a relationship."""
    leads_to_model = mapper.isa(relationship.mapper)
    return leads_to_model and relationship.cascade.delete and not relationship.passive_deletes
