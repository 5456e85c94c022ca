"""How an Archive stands with its resolver.

Revision: 0004, after 0003.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "ibi_registration",
        sa.Column("archive_id", KEY, autoincrement=False, nullable=False),
        sa.Column("resolver_url", sa.Text(), nullable=False),
        sa.Column("address", sa.String(length=255), nullable=True),
        sa.Column("ip", sa.String(length=45), nullable=True),
        sa.Column("registered_at", MOMENT, nullable=True),
        sa.Column("included_at", MOMENT, nullable=True),
        sa.Column("confirmed_at", MOMENT, nullable=True),
        sa.Column("excluded_at", MOMENT, nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("error_at", MOMENT, nullable=True),
        sa.CheckConstraint(
            "(error IS NULL) = (error_at IS NULL)", name="ck_ibi_registration_error"
        ),
        sa.CheckConstraint(
            "confirmed_at IS NULL OR included_at IS NOT NULL", name="ck_ibi_registration_confirmed"
        ),
        sa.CheckConstraint(
            "included_at IS NULL OR (registered_at IS NOT NULL AND address IS NOT NULL)",
            name="ck_ibi_registration_included",
        ),
        sa.ForeignKeyConstraint(
            ["archive_id"], ["ibi_archive.id"], name="fk_ibi_registration_archive"
        ),
        sa.PrimaryKeyConstraint("archive_id"),
    )


def downgrade() -> None:
    """Take them out."""
    op.drop_table("ibi_registration")
