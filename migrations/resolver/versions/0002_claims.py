"""The tables about the claims of Archives, conflicts and failed URLs.

Revision: ibi_resolver_0002.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "ibi_resolver_0002"
down_revision = "ibi_resolver_0001"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True)
#: The new tables, in the order in which they are created.
TABLES = (
    "ibi_resolver_binding",
    "ibi_resolver_failed_url",
    "ibi_resolver_index_run",
    "ibi_resolver_state",
    "ibi_resolver_conflict",
    "ibi_resolver_log",
    "ibi_resolver_pinned_key",
    "ibi_resolver_prefix",
    "ibi_resolver_rejected_entry",
)


def upgrade() -> None:
    """Create the tables, and number the versions of the list of Archives."""
    op.add_column(
        "ibi_resolver_archive",
        sa.Column("changed_in", sa.BigInteger(), server_default="0", nullable=False),
    )
    op.create_table(
        "ibi_resolver_binding",
        sa.Column("key", sa.LargeBinary(), nullable=False),
        sa.Column("archive_id", KEY, autoincrement=False, nullable=False),
        sa.Column("state", sa.SmallInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key", "archive_id"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "ibi_resolver_failed_url",
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("ibi", sa.String(length=255), nullable=False),
        sa.Column("reason", sa.String(length=20), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("count > 0", name="ck_ibi_resolver_failed_url_count"),
        sa.PrimaryKeyConstraint("day", "ibi", "reason"),
    )
    op.create_table(
        "ibi_resolver_index_run",
        sa.Column("id", KEY, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(length=40), nullable=False),
        sa.Column("records", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "ibi_resolver_state",
        sa.Column("id", KEY, autoincrement=False, nullable=False),
        sa.Column("version", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("followed_at", MOMENT, nullable=True),
        sa.Column("follower", sa.String(length=32), nullable=True),
        sa.Column("follows_until", MOMENT, nullable=True),
        sa.CheckConstraint("id = 1", name="ck_ibi_resolver_state_id"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "ibi_resolver_conflict",
        sa.Column("id", KEY, autoincrement=True, nullable=False),
        sa.Column("ibi", sa.String(length=255), nullable=False),
        sa.Column("other_ibi", sa.String(length=255), nullable=True),
        sa.Column("first_archive_id", KEY, nullable=False),
        sa.Column("second_archive_id", KEY, nullable=False),
        sa.Column("found_at", MOMENT, nullable=False),
        sa.Column("ended_at", MOMENT, nullable=True),
        sa.Column("announced_at", MOMENT, nullable=True),
        sa.Column("tried_at", MOMENT, nullable=True),
        sa.Column("told_at", MOMENT, nullable=True),
        sa.CheckConstraint(
            "first_archive_id < second_archive_id", name="ck_ibi_resolver_conflict_order"
        ),
        sa.ForeignKeyConstraint(
            ["first_archive_id"],
            ["ibi_resolver_archive.id"],
            name="fk_ibi_resolver_conflict_first_archive",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["second_archive_id"],
            ["ibi_resolver_archive.id"],
            name="fk_ibi_resolver_conflict_second_archive",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "uq_ibi_resolver_conflict_open",
        "ibi_resolver_conflict",
        ["ibi", "first_archive_id", "second_archive_id"],
        unique=True,
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.create_index(
        "ix_ibi_resolver_conflict_other_ibi", "ibi_resolver_conflict", ["other_ibi"], unique=False
    )
    op.create_table(
        "ibi_resolver_log",
        sa.Column("archive_id", KEY, nullable=False),
        sa.Column("origin", sa.String(length=300), nullable=False),
        sa.Column("service_rep", sa.String(length=300), nullable=False),
        sa.Column("key", sa.String(length=500), nullable=False),
        sa.Column("pinned_at", MOMENT, nullable=False),
        sa.Column("number", sa.Integer(), server_default="1", nullable=False),
        sa.Column("state", sa.String(length=12), server_default="new", nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("size", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("length", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("frontier", sa.LargeBinary(), nullable=False),
        sa.Column("checkpoint", sa.Text(), nullable=True),
        sa.Column("etag", sa.String(length=255), nullable=True),
        sa.Column("signed_at", MOMENT, nullable=True),
        sa.Column("read_at", MOMENT, nullable=True),
        sa.Column("due_at", MOMENT, nullable=True),
        sa.Column("contradictions", sa.Integer(), server_default="0", nullable=False),
        sa.CheckConstraint(
            "state IN ('new', 'current', 'silent', 'stale', 'forked', 'contradicted', 'full')",
            name="ck_ibi_resolver_log_state",
        ),
        sa.CheckConstraint("size = 0 OR checkpoint IS NOT NULL", name="ck_ibi_resolver_log_read"),
        sa.CheckConstraint(
            "size >= 0 AND length >= 0 AND contradictions >= 0", name="ck_ibi_resolver_log_counts"
        ),
        sa.ForeignKeyConstraint(
            ["archive_id"],
            ["ibi_resolver_archive.id"],
            name="fk_ibi_resolver_log_archive",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("archive_id"),
        sa.UniqueConstraint("service_rep", name="uq_ibi_resolver_log_service_rep"),
    )
    op.create_index("ix_ibi_resolver_log_due", "ibi_resolver_log", ["due_at"], unique=False)
    op.create_table(
        "ibi_resolver_pinned_key",
        sa.Column("archive_id", KEY, nullable=False),
        sa.Column("pinned_at", MOMENT, nullable=False),
        sa.Column("key", sa.String(length=500), nullable=False),
        sa.ForeignKeyConstraint(
            ["archive_id"],
            ["ibi_resolver_archive.id"],
            name="fk_ibi_resolver_pinned_key_archive",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("archive_id", "pinned_at"),
    )
    op.create_table(
        "ibi_resolver_prefix",
        sa.Column("prefix", sa.String(length=255), nullable=False),
        sa.Column("archive_id", KEY, nullable=False),
        sa.Column("seen_at", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(
            ["archive_id"],
            ["ibi_resolver_archive.id"],
            name="fk_ibi_resolver_prefix_archive",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("prefix", "archive_id"),
    )
    op.create_index(
        "ix_ibi_resolver_prefix_archive", "ibi_resolver_prefix", ["archive_id"], unique=False
    )
    op.create_table(
        "ibi_resolver_rejected_entry",
        sa.Column("archive_id", KEY, nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("rejected_at", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(
            ["archive_id"],
            ["ibi_resolver_archive.id"],
            name="fk_ibi_resolver_rejected_entry_archive",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("archive_id", "position"),
    )
    op.execute("INSERT INTO ibi_resolver_state (id, version) VALUES (1, 0)")


def downgrade() -> None:
    """Drop the tables."""
    for table in reversed(TABLES):
        op.drop_table(table)
    op.drop_column("ibi_resolver_archive", "changed_in")
