"""The tables of the document registry: actors, documents, registrations and metadata.

Revision: resolver_0003, after resolver_0002.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "resolver_0003"
down_revision = "resolver_0002"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
DATE = sa.DateTime(timezone=True)
MAX_URL = 2048

#: The foreign keys between tables that refer to each other: table, name, columns, other table,
#: other columns.
CIRCULAR = (
    (
        "ibi_registry_document",
        "fk_ibi_registry_document_holder",
        ["id", "holder_id"],
        "ibi_registry_registration",
        ["document_id", "actor_id"],
    ),
    (
        "ibi_registry_registration",
        "fk_ibi_registry_registration_metadata",
        ["id", "first_metadata"],
        "ibi_registry_metadata",
        ["registration_id", "number"],
    ),
)


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "ibi_registry_actor",
        sa.Column("id", KEY, autoincrement=True, nullable=False),
        sa.Column("actor_id", sa.String(length=255), nullable=False),
        sa.Column("computer_name", sa.String(length=255), nullable=False),
        sa.Column("domain_name", sa.String(length=255), nullable=False),
        sa.Column("ip", sa.String(length=45), nullable=False),
        sa.Column("port", sa.Integer(), nullable=False),
        sa.Column("email", sa.String(length=255), nullable=False),
        sa.Column("password_hash", sa.String(length=255), nullable=True),
        sa.Column("registered_at", DATE, nullable=False),
        sa.Column("failing_since", DATE, nullable=True),
        sa.Column("cancelled_at", DATE, nullable=True),
        sa.Column(
            "active_id",
            KEY,
            sa.Computed("CASE WHEN cancelled_at IS NULL THEN id END", persisted=True),
            nullable=True,
        ),
        sa.CheckConstraint("port BETWEEN 1 AND 65535", name="ck_ibi_registry_actor_port"),
        sa.CheckConstraint(
            "(cancelled_at IS NULL) = (password_hash IS NOT NULL)",
            name="ck_ibi_registry_actor_cancelled",
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("actor_id", name="uq_ibi_registry_actor_actor_id"),
        sa.UniqueConstraint("active_id", name="uq_ibi_registry_actor_active"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "ibi_registry_document",
        sa.Column("id", KEY, autoincrement=True, nullable=False),
        sa.Column("document_id", sa.String(length=255), nullable=False),
        sa.Column("holder_id", KEY, nullable=False),
        sa.Column("is_original", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("document_id", name="uq_ibi_registry_document_document_id"),
        *_circular_constraints("ibi_registry_document"),
    )
    op.create_index("ix_ibi_registry_document_holder", "ibi_registry_document", ["holder_id"])
    op.create_table(
        "ibi_registry_registration",
        sa.Column("id", KEY, autoincrement=True, nullable=False),
        sa.Column("document_id", KEY, nullable=False),
        sa.Column("actor_id", KEY, nullable=False),
        sa.Column("url", sa.String(length=MAX_URL), nullable=True),
        sa.Column("updated_at", DATE, nullable=True),
        sa.Column("previous_edition_url", sa.String(length=MAX_URL), nullable=True),
        sa.Column("previous_edition_ibi", sa.String(length=255), nullable=True),
        sa.Column("next_edition_url", sa.String(length=MAX_URL), nullable=True),
        sa.Column("next_edition_ibi", sa.String(length=255), nullable=True),
        sa.Column("first_metadata", sa.Integer(), nullable=True),
        sa.CheckConstraint(
            "(url IS NULL) = (updated_at IS NULL)", name="ck_ibi_registry_registration_updated"
        ),
        sa.CheckConstraint(
            "url IS NOT NULL OR first_metadata IS NOT NULL", name="ck_ibi_registry_urls"
        ),
        sa.CheckConstraint("first_metadata = 1", name="ck_ibi_registry_registration_metadata"),
        sa.CheckConstraint(
            "previous_edition_ibi IS NULL OR previous_edition_url IS NOT NULL",
            name="ck_ibi_registry_registration_previous",
        ),
        sa.CheckConstraint(
            "next_edition_ibi IS NULL OR next_edition_url IS NOT NULL",
            name="ck_ibi_registry_registration_next",
        ),
        sa.ForeignKeyConstraint(
            ["document_id"],
            ["ibi_registry_document.id"],
            name="fk_ibi_registry_registration_document",
        ),
        sa.ForeignKeyConstraint(
            ["actor_id"],
            ["ibi_registry_actor.active_id"],
            name="fk_ibi_registry_registration_actor",
            deferrable=True,
            initially="DEFERRED",
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("document_id", "actor_id", name="uq_ibi_registry_registration_actor"),
        *_circular_constraints("ibi_registry_registration"),
    )
    for name, column in (
        ("actor", "actor_id"),
        ("url", "url"),
        ("previous_url", "previous_edition_url"),
        ("previous_ibi", "previous_edition_ibi"),
    ):
        op.create_index(
            f"ix_ibi_registry_registration_{name}", "ibi_registry_registration", [column]
        )
    op.create_table(
        "ibi_registry_metadata",
        sa.Column("registration_id", KEY, nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("url", sa.String(length=MAX_URL), nullable=False),
        sa.Column("updated_at", DATE, nullable=False),
        sa.Column("format", sa.Text(), nullable=True),
        sa.Column("language", sa.String(length=5), nullable=True),
        sa.CheckConstraint("number >= 1", name="ck_ibi_registry_metadata_number"),
        sa.ForeignKeyConstraint(
            ["registration_id"],
            ["ibi_registry_registration.id"],
            name="fk_ibi_registry_metadata_registration",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("registration_id", "number"),
    )
    if op.get_bind().dialect.name != "sqlite":
        for table, name, columns, other, others in CIRCULAR:
            op.create_foreign_key(
                name, table, other, columns, others, deferrable=True, initially="DEFERRED"
            )
    op.create_table(
        "ibi_registry_prefix",
        sa.Column("prefix", sa.String(length=255), nullable=False),
        sa.Column("last_date", sa.String(length=255), nullable=False),
        sa.PrimaryKeyConstraint("prefix"),
    )
    op.create_table(
        "ibi_registry_attempt",
        sa.Column("id", KEY, autoincrement=True, nullable=False),
        sa.Column("actor_hash", sa.String(length=64), nullable=True),
        sa.Column("sender", sa.String(length=45), nullable=False),
        sa.Column("attempted_at", DATE, nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    for name, column in (("actor", "actor_hash"), ("sender", "sender")):
        op.create_index(
            f"ix_ibi_registry_attempt_{name}", "ibi_registry_attempt", [column, "attempted_at"]
        )
    op.create_index("ix_ibi_registry_attempt_date", "ibi_registry_attempt", ["attempted_at"])


def downgrade() -> None:
    """Drop the tables."""
    if op.get_bind().dialect.name == "sqlite":
        # without these statements, dropping a table would break the constraints of another table
        op.execute("DELETE FROM ibi_registry_registration")
        op.execute("DELETE FROM ibi_registry_document")
    else:
        for table, name, *_ in CIRCULAR:
            op.drop_constraint(name, table, type_="foreignkey")
    for table in ("attempt", "prefix", "metadata", "registration", "document", "actor"):
        op.drop_table(f"ibi_registry_{table}")


def _circular_constraints(table: str) -> list[sa.ForeignKeyConstraint]:
    """Return the foreign keys that are part of CREATE TABLE on SQLite.

    SQLite cannot add a constraint later. PostgreSQL needs the other table first.
    """
    if op.get_bind().dialect.name != "sqlite":
        return []
    return [
        sa.ForeignKeyConstraint(
            columns,
            [f"{other}.{column}" for column in others],
            name=name,
            deferrable=True,
            initially="DEFERRED",
        )
        for of_table, name, columns, other, others in CIRCULAR
        if of_table == table
    ]
