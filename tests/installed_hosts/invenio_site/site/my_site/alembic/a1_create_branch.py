"""Create the branch of this site."""

revision = "a1"
down_revision = None
branch_labels = ("my_site",)
depends_on = "dbdbc1b19cf2"


def upgrade():
    """Change nothing."""


def downgrade():
    """Change nothing."""
