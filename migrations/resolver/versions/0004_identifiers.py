"""The identifiers of actors and documents: each belongs to one actor or to one document.

If an actor and a document have the same identifier, both remain, and the identifier belongs to the
actor.

Revision: resolver_0004, after resolver_0003.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "resolver_0004"
down_revision = "resolver_0003"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TABLE = "ibi_registry_identifier"


def upgrade() -> None:
    """Create the table, and insert the identifiers in use."""
    op.create_table(
        TABLE,
        sa.Column("identifier", sa.String(length=255), nullable=False),
        sa.Column("actor_id", KEY, nullable=True),
        sa.Column("document_id", KEY, nullable=True),
        sa.CheckConstraint(
            "(actor_id IS NULL) <> (document_id IS NULL)", name="ck_ibi_registry_identifier_owner"
        ),
        sa.ForeignKeyConstraint(
            ["actor_id"], ["ibi_registry_actor.id"], name="fk_ibi_registry_identifier_actor"
        ),
        sa.ForeignKeyConstraint(
            ["document_id"],
            ["ibi_registry_document.id"],
            name="fk_ibi_registry_identifier_document",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("identifier"),
        sa.UniqueConstraint("actor_id", name="uq_ibi_registry_identifier_actor"),
        sa.UniqueConstraint("document_id", name="uq_ibi_registry_identifier_document"),
    )
    op.execute(
        f"INSERT INTO {TABLE} (identifier, actor_id) SELECT actor_id, id FROM ibi_registry_actor"
    )
    op.execute(
        f"INSERT INTO {TABLE} (identifier, document_id)"
        " SELECT document_id, id FROM ibi_registry_document"
        " WHERE document_id NOT IN (SELECT actor_id FROM ibi_registry_actor)"
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table(TABLE)
