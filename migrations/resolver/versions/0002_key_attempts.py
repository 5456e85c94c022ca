"""The registration keys that were sent of late and were wrong: what the rate limit counts.

Revision: resolver_0002, after resolver_0001.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "resolver_0002"
down_revision = "resolver_0001"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TABLE = "ibi_resolver_key_attempt"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        TABLE,
        sa.Column("id", KEY, autoincrement=True, nullable=False),
        sa.Column("archive_id", KEY, nullable=False),
        sa.Column("sender", sa.String(length=45), nullable=False),
        sa.Column("attempted_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["archive_id"],
            ["ibi_resolver_archive.id"],
            name="fk_ibi_resolver_key_attempt_archive",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_ibi_resolver_key_attempt_archive", TABLE, ["archive_id", "attempted_at"])
    op.create_index("ix_ibi_resolver_key_attempt_sender", TABLE, ["sender", "attempted_at"])


def downgrade() -> None:
    """Drop it."""
    op.drop_table(TABLE)
