"""Imports that can be resumed.

Revision: 0003, after 0002.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "ibi_import",
        sa.Column("id", KEY, autoincrement=True, nullable=False),
        sa.Column("archive_id", KEY, nullable=False),
        sa.Column("resumable", sa.Boolean(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("on_conflict", sa.String(length=6), nullable=False),
        sa.Column("started_at", MOMENT, nullable=False),
        sa.Column("newest_item", KEY, nullable=False),
        sa.Column("phase", sa.String(length=9), server_default="items", nullable=False),
        sa.Column("position", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("line", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("lines", sa.BigInteger(), nullable=True),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("added", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("updated", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("skipped", sa.BigInteger(), server_default="0", nullable=False),
        sa.CheckConstraint(
            "on_conflict IN ('error', 'skip', 'update')", name="ck_ibi_import_on_conflict"
        ),
        sa.CheckConstraint(
            "phase IN ('items', 'languages', 'ties', 'done')", name="ck_ibi_import_phase"
        ),
        sa.ForeignKeyConstraint(["archive_id"], ["ibi_archive.id"], name="fk_ibi_import_archive"),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )

    op.create_index(
        "uq_ibi_import_archive",
        "ibi_import",
        ["archive_id"],
        unique=True,
        sqlite_where=sa.text("resumable"),
        postgresql_where=sa.text("resumable"),
    )

    op.create_table(
        "ibi_import_line",
        sa.Column("import_id", KEY, nullable=False),
        sa.Column("line", sa.BigInteger(), nullable=False),
        sa.Column("item_id", KEY, nullable=False),
        sa.Column("written", sa.Boolean(), nullable=False),
        sa.Column("tied", sa.Boolean(), nullable=False),
        sa.Column("told", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["import_id"], ["ibi_import.id"], name="fk_ibi_import_line_import", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("import_id", "line"),
    )

    op.create_index(
        "ix_ibi_import_line_item", "ibi_import_line", ["import_id", "item_id"], unique=False
    )


def downgrade() -> None:
    """Take them out."""
    op.drop_table("ibi_import_line")
    op.drop_table("ibi_import")
