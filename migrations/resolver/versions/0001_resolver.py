"""The Archives that are registered with a resolver, and where IBIs were last found.

Revision: resolver_0001, the first. It bears its history's name, so that a host which keeps one history for all
can have both.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "resolver_0001"
down_revision = None
branch_labels = ("ibi_resolver",)
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "ibi_resolver_archive",
        sa.Column("id", KEY, autoincrement=True, nullable=False),
        sa.Column("service_ibi", sa.String(length=255), nullable=False),
        sa.Column("key_hash", sa.String(length=255), nullable=False),
        sa.Column("email", sa.String(length=255), nullable=True),
        sa.Column("registered_at", MOMENT, nullable=False),
        sa.Column("address", sa.String(length=255), nullable=True),
        sa.Column("ip", sa.String(length=45), nullable=True),
        sa.Column("platform_version", sa.String(length=255), nullable=True),
        sa.Column("admin_email", sa.String(length=255), nullable=True),
        sa.Column("included_at", MOMENT, nullable=True),
        sa.Column("confirmed_at", MOMENT, nullable=True),
        sa.Column("excluded_at", MOMENT, nullable=True),
        sa.Column("requests", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("written", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("answers", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("failures", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("milliseconds", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("last_answer_at", MOMENT, nullable=True),
        sa.Column("last_failure", sa.Text(), nullable=True),
        sa.Column("last_failure_at", MOMENT, nullable=True),
        sa.CheckConstraint(
            "included_at IS NULL OR (address IS NOT NULL AND ip IS NOT NULL"
            " AND platform_version IS NOT NULL AND admin_email IS NOT NULL)",
            name="ck_ibi_resolver_archive_included",
        ),
        sa.CheckConstraint(
            "confirmed_at IS NULL OR included_at IS NOT NULL",
            name="ck_ibi_resolver_archive_confirmed",
        ),
        sa.CheckConstraint(
            "excluded_at IS NULL OR included_at IS NULL", name="ck_ibi_resolver_archive_excluded"
        ),
        sa.CheckConstraint(
            "written >= 0 AND written <= requests", name="ck_ibi_resolver_archive_requests"
        ),
        sa.CheckConstraint(
            "answers >= 0 AND failures >= 0 AND milliseconds >= 0",
            name="ck_ibi_resolver_archive_counts",
        ),
        sa.CheckConstraint(
            "(last_failure IS NULL) = (last_failure_at IS NULL)",
            name="ck_ibi_resolver_archive_failure",
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("service_ibi", name="uq_ibi_resolver_archive_service_ibi"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "ibi_resolver_hint",
        sa.Column("ibi", sa.String(length=255), nullable=False),
        sa.Column("archive_id", KEY, nullable=False),
        sa.Column("found_at", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(
            ["archive_id"],
            ["ibi_resolver_archive.id"],
            name="fk_ibi_resolver_hint_archive",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("ibi"),
    )
    op.create_index("ix_ibi_resolver_hint_archive", "ibi_resolver_hint", ["archive_id"])
    op.create_index("ix_ibi_resolver_hint_found", "ibi_resolver_hint", ["found_at"])


def downgrade() -> None:
    """Take them out."""
    op.drop_table("ibi_resolver_hint")
    op.drop_table("ibi_resolver_archive")
