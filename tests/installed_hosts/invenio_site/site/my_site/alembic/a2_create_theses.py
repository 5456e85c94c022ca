"""Create the tables of theses, which had no identifiers then."""

import sqlalchemy as sa
from alembic import op
from invenio_db.shared import UTCDateTime
from sqlalchemy.dialects import postgresql
from sqlalchemy_utils.types import UUIDType

revision = "a2"
down_revision = "a1"
branch_labels = ()
depends_on = None

JSON = sa.JSON().with_variant(postgresql.JSONB(none_as_null=True), "postgresql")


def _columns(is_version):
    return [
        sa.Column("id", UUIDType(), nullable=False),
        sa.Column("json", JSON, nullable=True),
        sa.Column("version_id", sa.Integer(), nullable=is_version),
        sa.Column("created", UTCDateTime(), nullable=is_version),
        sa.Column("updated", UTCDateTime(), nullable=is_version),
    ]


def upgrade():
    """Create the table, and that of SQLAlchemy-Continuum with the versions of its rows."""
    op.create_table(
        "thesis_metadata",
        *_columns(False),
        sa.PrimaryKeyConstraint("id", name="pk_thesis_metadata"),
    )
    op.create_table(
        "thesis_metadata_version",
        *_columns(True),
        sa.Column("transaction_id", sa.BigInteger(), nullable=False),
        sa.Column("end_transaction_id", sa.BigInteger(), nullable=True),
        sa.Column("operation_type", sa.SmallInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", "transaction_id", name="pk_thesis_metadata_version"),
    )
    for name in ("end_transaction_id", "operation_type", "transaction_id"):
        table = "thesis_metadata_version"
        op.create_index(f"ix_{table}_{name}", table, [name])


def downgrade():
    """Drop both tables."""
    op.drop_table("thesis_metadata_version")
    op.drop_table("thesis_metadata")
