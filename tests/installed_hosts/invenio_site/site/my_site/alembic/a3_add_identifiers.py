"""Add identifiers: what ``invenio alembic revision`` proposes after the mixin was added."""

import sqlalchemy as sa
from alembic import op

revision = "a3"
down_revision = "a2"
branch_labels = ()
depends_on = None


def upgrade():
    """Add both columns to the table and to that of its versions."""
    for table, unique in (("thesis_metadata", True), ("thesis_metadata_version", False)):
        for name in ("ibi_rep", "ibi_ibip"):
            op.add_column(table, sa.Column(name, sa.String(), nullable=True))
            op.create_index(op.f(f"ix_{table}_{name}"), table, [name], unique=unique)


def downgrade():
    """Drop the columns."""
    for table in ("thesis_metadata_version", "thesis_metadata"):
        for name in ("ibi_ibip", "ibi_rep"):
            op.drop_index(op.f(f"ix_{table}_{name}"), table_name=table)
            op.drop_column(table, name)
