"""Create the tables."""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0001", None
branch_labels = depends_on = None


def upgrade() -> None:
    op.create_table(
        "user",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(80), nullable=False),
        sa.Column("password", sa.String(200), nullable=False),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "advisor",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(80), nullable=False),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "thesis",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("title", sa.String(80), nullable=False),
        sa.Column("writer", sa.String(80), nullable=False),
        sa.Column("year", sa.Integer),
        sa.Column("pdf", sa.String(200)),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("advisor_id", sa.Integer, sa.ForeignKey("advisor.id")),
    )
    op.create_table(
        "chapter",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("title", sa.String(200), nullable=False),
        sa.Column(
            "thesis_id", sa.Integer, sa.ForeignKey("thesis.id", ondelete="CASCADE"), nullable=False
        ),
    )
    op.create_table(
        "review",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("text", sa.String(200), nullable=False),
        sa.Column("thesis_id", sa.Integer, sa.ForeignKey("thesis.id"), nullable=False),
    )
    op.create_table(
        "page",
        sa.Column("path", sa.String(80), primary_key=True),
        sa.Column("text", sa.Text, nullable=False),
    )


def downgrade() -> None:
    for name in ("page", "review", "chapter", "thesis", "advisor", "user"):
        op.drop_table(name)
