"""complete descriptions of publications

Revision ID: 0002
Revises: 0001
Create Date: 2026-11-26 19:40:00.000000

"""

import sqlalchemy as sa
from alembic import op

# revision identifiers, used by Alembic.
revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

#: The new columns and their lengths; None for a text without a limit.
COLUMNS = {
    "other_titles": 1000,
    "committee": 2000,
    "degree": 200,
    "level": 20,
    "programme": 200,
    "institution": 300,
    "journal": 300,
    "volume": 50,
    "issue": 50,
    "pages": 50,
    "issn": 20,
    "number": 50,
    "publisher": 300,
    "other_abstracts": None,
    "subjects": 1000,
    "licence": 200,
    "funding": 2000,
    "related": 2000,
}


def upgrade() -> None:
    with op.batch_alter_table("publication", schema=None) as batch_op:
        for name, length in COLUMNS.items():
            batch_op.add_column(sa.Column(name, sa.String(length), nullable=True))
        batch_op.add_column(sa.Column("defended", sa.Date(), nullable=True))
        batch_op.alter_column("advisor", type_=sa.String(1000), existing_type=sa.String(200))


def downgrade() -> None:
    with op.batch_alter_table("publication", schema=None) as batch_op:
        batch_op.alter_column("advisor", type_=sa.String(200), existing_type=sa.String(1000))
        batch_op.drop_column("defended")
        for name in COLUMNS:
            batch_op.drop_column(name)
