"""All tables of a resolver, with those of its document registry.

Revision: ibi_resolver_0001, the first. It contains the name of its history, so that a host which
keeps one history for all can have both.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "ibi_resolver_0001"
down_revision = None
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True)


def define_tables() -> sa.MetaData:
    """Return the tables, in the order in which they refer to each other."""
    metadata = sa.MetaData()
    sa.Table(
        "ibi_resolver_archive",
        metadata,
        sa.Column("id", KEY, autoincrement=True, nullable=False),
        sa.Column("service_ibi", sa.String(255), nullable=False),
        sa.Column("key_hash", sa.String(255), nullable=False),
        sa.Column("email", sa.String(255)),
        sa.Column("registered_at", MOMENT, nullable=False),
        sa.Column("address", sa.String(255)),
        sa.Column("ip", sa.String(45)),
        sa.Column("platform_version", sa.String(255)),
        sa.Column("admin_email", sa.String(255)),
        sa.Column("mints", sa.Text()),
        sa.Column("database", sa.Text()),
        sa.Column("included_at", MOMENT),
        sa.Column("confirmed_at", MOMENT),
        sa.Column("excluded_at", MOMENT),
        sa.Column("requests", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("answers", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("failures", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("milliseconds", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("last_answer_at", MOMENT),
        sa.Column("last_failure", sa.Text()),
        sa.Column("last_failure_at", MOMENT),
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
    sa.Table(
        "ibi_registry_actor",
        metadata,
        sa.Column("id", KEY, autoincrement=True, nullable=False),
        sa.Column("actor_id", sa.String(255), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("email", sa.String(255), nullable=False),
        sa.Column("password_hash", sa.String(255)),
        sa.Column("failing_since", MOMENT),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("actor_id", name="uq_ibi_registry_actor_actor_id"),
    )
    sa.Table(
        "ibi_registry_registration",
        metadata,
        sa.Column("id", KEY, autoincrement=True, nullable=False),
        sa.Column("document_id", sa.String(255), nullable=False),
        sa.Column("actor_id", KEY, nullable=False),
        sa.Column("is_copy", sa.Boolean(), nullable=False),
        sa.Column("is_original", sa.Boolean(), nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.CheckConstraint("NOT (is_copy AND is_original)", name="ck_ibi_registry_original"),
        sa.ForeignKeyConstraint(
            ["actor_id"], ["ibi_registry_actor.id"], name="fk_ibi_registry_registration_actor"
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("document_id", "actor_id", name="uq_ibi_registry_registration_actor"),
        sa.Index("ix_ibi_registry_registration_actor", "actor_id"),
        sa.Index(
            "uq_ibi_registry_registration_document",
            "document_id",
            unique=True,
            sqlite_where=sa.text("NOT is_copy"),
            postgresql_where=sa.text("NOT is_copy"),
        ),
    )
    sa.Table(
        "ibi_registry_identifier",
        metadata,
        sa.Column("identifier", sa.String(255), nullable=False),
        sa.PrimaryKeyConstraint("identifier"),
    )
    return metadata


#: The tables about claims, in the order in which they are created.
CLAIM_TABLES = (
    "ibi_resolver_state",
    "ibi_resolver_conflict",
    "ibi_resolver_prefix",
    "ibi_resolver_followed",
    "ibi_resolver_claim",
    "ibi_resolver_refused_claim",
)


def create_claims() -> None:
    """Create the tables about the claims of Archives and conflicts."""
    op.create_table(
        "ibi_resolver_state",
        sa.Column("id", KEY, autoincrement=False, nullable=False),
        sa.Column("version", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("followed_at", MOMENT, nullable=True),
        sa.Column("catching_up_since", MOMENT, nullable=True),
        sa.Column("follower", sa.String(length=32), nullable=True),
        sa.Column("follows_until", MOMENT, nullable=True),
        sa.CheckConstraint("id = 1", name="ck_ibi_resolver_state_id"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "ibi_resolver_conflict",
        sa.Column("id", KEY, autoincrement=True, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("other_name", sa.Text()),
        sa.Column("is_alias", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("first_archive_id", KEY, nullable=False),
        sa.Column("second_archive_id", KEY, nullable=False),
        sa.Column("found_at", MOMENT, nullable=False),
        sa.Column("ended_at", MOMENT, nullable=True),
        sa.Column("preferred_id", KEY, nullable=True),
        sa.Column("tried_at", MOMENT, nullable=True),
        sa.Column("told_at", MOMENT, nullable=True),
        sa.CheckConstraint(
            "first_archive_id < second_archive_id", name="ck_ibi_resolver_conflict_order"
        ),
        sa.CheckConstraint(
            "preferred_id IS NULL OR ended_at IS NOT NULL",
            name="ck_ibi_resolver_conflict_preferred",
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
        sa.ForeignKeyConstraint(
            ["preferred_id"],
            ["ibi_resolver_archive.id"],
            name="fk_ibi_resolver_conflict_preferred_archive",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "uq_ibi_resolver_conflict_open",
        "ibi_resolver_conflict",
        ["name", "first_archive_id", "second_archive_id"],
        unique=True,
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    for column in ("name", "other_name"):
        op.create_index(f"ix_ibi_resolver_conflict_{column}", "ibi_resolver_conflict", [column])
    op.create_table(
        "ibi_resolver_prefix",
        sa.Column("prefix", sa.String(length=255), nullable=False),
        sa.Column("archive_id", KEY, nullable=False),
        sa.Column("is_hidden", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("seen_at", MOMENT, nullable=True),
        sa.CheckConstraint(
            "is_hidden OR seen_at IS NOT NULL", name="ck_ibi_resolver_prefix_reason"
        ),
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
    archive = ["archive_id"], ["ibi_resolver_archive.id"]
    op.create_table(
        "ibi_resolver_followed",
        sa.Column("archive_id", KEY, nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("pinned_at", MOMENT, nullable=False),
        sa.Column("epoch", sa.String(64)),
        sa.Column("reading", sa.Integer(), server_default="0", nullable=False),
        sa.Column("position", sa.String(512), server_default="", nullable=False),
        sa.Column("etag", sa.String(255)),
        sa.Column("read_at", MOMENT),
        sa.Column("due_at", MOMENT),
        sa.Column("names", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("failures", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("reason", sa.Text()),
        sa.Column("contradictions", sa.BigInteger(), server_default="0", nullable=False),
        sa.CheckConstraint(
            "failures >= 0 AND contradictions >= 0 AND reading >= 0 AND names >= 0",
            name="ck_ibi_resolver_followed_counts",
        ),
        sa.CheckConstraint(
            "epoch IS NOT NULL OR (position = '' AND read_at IS NULL)",
            name="ck_ibi_resolver_followed_epoch",
        ),
        sa.ForeignKeyConstraint(
            *archive, name="fk_ibi_resolver_followed_archive", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("archive_id"),
    )
    op.create_table(
        "ibi_resolver_claim",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("archive_id", KEY, autoincrement=False, nullable=False),
        sa.Column("reading", sa.Integer(), nullable=False),
        sa.Column("item", sa.String(255), nullable=False),
        sa.Column("kind", sa.SmallInteger(), nullable=False),
        sa.Column("state", sa.SmallInteger(), nullable=False),
        sa.Column("timestamp", sa.String(20), nullable=False),
        sa.Column("original_archive", sa.String(255)),
        sa.Column("since", MOMENT, nullable=False),
        sa.CheckConstraint("state IN (1, 2, 3)", name="ck_ibi_resolver_claim_state"),
        sa.CheckConstraint("kind IN (1, 2, 3)", name="ck_ibi_resolver_claim_kind"),
        sa.ForeignKeyConstraint(*archive, name="fk_ibi_resolver_claim_archive", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("name", "archive_id"),
        sa.Index("ix_ibi_resolver_claim_item", "archive_id", "reading", "item"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "ibi_resolver_refused_claim",
        sa.Column("archive_id", KEY, nullable=False),
        sa.Column("item", sa.String(255), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("refused_at", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(
            *archive, name="fk_ibi_resolver_refused_archive", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("archive_id", "item"),
    )
    op.execute("INSERT INTO ibi_resolver_state (id, version) VALUES (1, 0)")


def upgrade() -> None:
    """Create the tables."""
    define_tables().create_all(op.get_bind(), checkfirst=False)
    create_claims()


def downgrade() -> None:
    """Drop the tables."""
    for table in reversed(CLAIM_TABLES):
        op.drop_table(table)
    define_tables().drop_all(op.get_bind(), checkfirst=False)
