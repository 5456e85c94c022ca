"""Count views; rename and widen columns."""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0002", "0001"
branch_labels = depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("thesis") as batch:
        batch.alter_column("writer", new_column_name="author", existing_type=sa.String(80))
        batch.alter_column(
            "title", type_=sa.String(200), existing_type=sa.String(80), existing_nullable=False
        )
        batch.add_column(sa.Column("views", sa.Integer, nullable=False, server_default="0"))
        batch.add_column(sa.Column("updated", sa.DateTime))


def downgrade() -> None:
    with op.batch_alter_table("thesis") as batch:
        batch.drop_column("updated")
        batch.drop_column("views")
        batch.alter_column(
            "title", type_=sa.String(80), existing_type=sa.String(200), existing_nullable=False
        )
        batch.alter_column("author", new_column_name="writer", existing_type=sa.String(80))
