"""Accesses as they were acknowledged, and their counts.

Revision: 0005, after 0004.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "ibi_access",
        sa.Column("id", KEY, autoincrement=True, nullable=False),
        sa.Column("archive_id", KEY, nullable=False),
        sa.Column("url_key", sa.String(length=64), nullable=False),
        sa.Column("item_id", KEY, nullable=False),
        sa.Column("delivered_item_id", KEY, nullable=True),
        sa.Column("second", sa.BigInteger(), nullable=False),
        sa.Column("visitor", sa.String(length=16), nullable=False),
        sa.Column("address", sa.String(length=45), nullable=False),
        sa.Column("robot", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("content_type", sa.String(length=8), nullable=False),
        sa.Column("state", sa.String(length=8), nullable=True),
        sa.Column("relation", sa.String(length=255), nullable=True),
        sa.Column("persistent_url", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "content_type IN ('Data', 'Metadata')", name="ck_ibi_access_content_type"
        ),
        sa.CheckConstraint("state IN ('Original', 'Copy')", name="ck_ibi_access_state"),
        sa.CheckConstraint("delivered_item_id <> item_id", name="ck_ibi_access_delivered"),
        sa.ForeignKeyConstraint(
            ["delivered_item_id", "archive_id"],
            ["ibi_item.id", "ibi_item.archive_id"],
            name="fk_ibi_access_delivered",
        ),
        sa.ForeignKeyConstraint(
            ["item_id", "archive_id"],
            ["ibi_item.id", "ibi_item.archive_id"],
            name="fk_ibi_access_item",
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("url_key", name="uq_ibi_access_url_key"),
        sqlite_autoincrement=True,
    )

    op.create_index("ix_ibi_access_archive", "ibi_access", ["archive_id", "second"], unique=False)

    op.create_index(
        "ix_ibi_access_delivered", "ibi_access", ["delivered_item_id", "second"], unique=False
    )

    op.create_index("ix_ibi_access_item", "ibi_access", ["item_id", "second"], unique=False)

    op.create_table(
        "ibi_access_count",
        sa.Column("item_id", KEY, autoincrement=False, nullable=False),
        sa.Column("role", sa.String(length=9), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("content_type", sa.String(length=8), nullable=False),
        sa.Column("archive_id", KEY, nullable=False),
        sa.Column("accesses", sa.BigInteger(), nullable=False),
        sa.Column("double_clicks", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("robots", sa.BigInteger(), server_default="0", nullable=False),
        sa.CheckConstraint(
            "content_type IN ('Data', 'Metadata')", name="ck_ibi_access_count_content_type"
        ),
        sa.CheckConstraint("role IN ('asked', 'delivered')", name="ck_ibi_access_count_role"),
        sa.ForeignKeyConstraint(
            ["item_id", "archive_id"],
            ["ibi_item.id", "ibi_item.archive_id"],
            name="fk_ibi_access_count_item",
        ),
        sa.PrimaryKeyConstraint("item_id", "role", "day", "content_type"),
    )

    op.create_index(
        "ix_ibi_access_count_archive", "ibi_access_count", ["archive_id", "day"], unique=False
    )

    op.create_table(
        "ibi_visitor_salt",
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("salt", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("day"),
    )


def downgrade() -> None:
    """Take them out."""
    op.drop_table("ibi_visitor_salt")
    op.drop_table("ibi_access_count")
    op.drop_table("ibi_access")
