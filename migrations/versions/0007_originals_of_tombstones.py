"""Where the Original of a removed item is kept, if not here.

Revision: 0007, after 0006.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
#: How a transfer gave its reason.
TRANSFERRED = "transferred to "


def upgrade() -> None:
    """Add the column; what was transferred says in its reason where to."""
    op.add_column("ibi_tombstone", sa.Column("original_archive", sa.String(length=255)))
    tombstone = sa.table("ibi_tombstone", sa.column("reason"), sa.column("original_archive"))
    identifier = sa.table("ibi_identifier", sa.column("text"), sa.column("item_id"))
    archive = sa.table("ibi_archive", sa.column("service_item_id"))
    service = sa.func.substr(tombstone.c.reason, len(TRANSFERRED) + 1)
    known = (
        sa.select(identifier.c.text)
        .join(archive, archive.c.service_item_id == identifier.c.item_id)
        .where(identifier.c.text == service)
    )
    op.execute(
        tombstone.update()
        .where(
            sa.func.substr(tombstone.c.reason, 1, len(TRANSFERRED)) == TRANSFERRED, known.exists()
        )
        .values(original_archive=service)
    )


def downgrade() -> None:
    """Take it out."""
    # for where the table has to be made anew: what is found of it by itself depends on versions
    before = sa.Table(
        "ibi_tombstone",
        sa.MetaData(),
        sa.Column("item_id", KEY, autoincrement=False, nullable=False),
        sa.Column("archive_id", KEY, nullable=False),
        sa.Column("state", sa.String(length=9), server_default="Deleted", nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("citation", sa.Text(), nullable=True),
        sa.Column("successor", sa.String(length=255), nullable=True),
        sa.Column("original_archive", sa.String(length=255), nullable=True),
        sa.CheckConstraint("state = 'Deleted'", name="ck_ibi_tombstone_state"),
        sa.ForeignKeyConstraint(
            ["item_id", "archive_id", "state"],
            ["ibi_item.id", "ibi_item.archive_id", "ibi_item.state"],
            name="fk_ibi_tombstone_item",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("item_id"),
    )
    with op.batch_alter_table("ibi_tombstone", copy_from=before) as batch:
        batch.drop_column("original_archive")
