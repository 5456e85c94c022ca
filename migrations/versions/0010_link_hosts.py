"""The hosts of links, and when each link was last found.

A check finds its links in this table, so it contains links that were not checked yet.

Revision: 0010, after 0009.
"""

from __future__ import annotations

from urllib.parse import urlsplit

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True)
HOST = sa.String(length=255)
INDEX = "ix_ibi_link_host"
#: Rows of one statement.
BATCH = 500


def upgrade() -> None:
    """Add the columns, and compute the hosts of the links."""
    op.add_column("ibi_link", sa.Column("host", HOST))
    op.add_column("ibi_link", sa.Column("found_at", MOMENT))
    op.execute("UPDATE ibi_link SET found_at = checked_at")
    _store_hosts()
    with op.batch_alter_table("ibi_link", copy_from=_table(nullable=True)) as batch:
        batch.alter_column("host", existing_type=HOST, nullable=False)
        batch.alter_column("found_at", existing_type=MOMENT, nullable=False)
        batch.alter_column("checked_at", existing_type=MOMENT, nullable=True)
    op.create_index(INDEX, "ibi_link", ["archive_id", "host", "checked_at", "digest"])


def downgrade() -> None:
    """Delete the links that were not checked, and drop the columns."""
    op.drop_index(INDEX, table_name="ibi_link")
    op.execute("DELETE FROM ibi_link WHERE checked_at IS NULL")
    with op.batch_alter_table("ibi_link", copy_from=_table(nullable=False)) as batch:
        batch.alter_column("checked_at", existing_type=MOMENT, nullable=False)
        batch.drop_column("found_at")
        batch.drop_column("host")


def _store_hosts() -> None:
    connection = op.get_bind()
    link = sa.table("ibi_link", *map(sa.column, ("archive_id", "digest", "url", "host")))
    page = sa.select(link.c.archive_id, link.c.digest, link.c.url).where(link.c.host.is_(None))
    update = (
        link.update()
        .where(link.c.archive_id == sa.bindparam("archive"), link.c.digest == sa.bindparam("link"))
        .values(host=sa.bindparam("name"))
    )
    while rows := connection.execute(page.limit(BATCH)).all():
        connection.execute(
            update,
            [
                {"archive": archive, "link": digest, "name": _host_of(url)}
                for archive, digest, url in rows
            ],
        )


def _host_of(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").rstrip(".")[:255]
    except ValueError:
        return ""


def _table(*, nullable: bool) -> sa.Table:
    """Return the table, which SQLite has to create again to change whether a column is nullable.

    :param nullable: of the new columns; the opposite of that of ``checked_at``.
    """
    return sa.Table(
        "ibi_link",
        sa.MetaData(),
        sa.Column("archive_id", KEY, autoincrement=False, nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("checked_at", MOMENT, nullable=not nullable),
        sa.Column("failures", sa.Integer(), server_default="0", nullable=False),
        sa.Column("failing_since", MOMENT, nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("noticed_at", MOMENT, nullable=True),
        sa.Column("host", HOST, nullable=nullable),
        sa.Column("found_at", MOMENT, nullable=nullable),
        sa.CheckConstraint(
            "(failures = 0) = (failing_since IS NULL) AND (failures = 0) = (error IS NULL)",
            name="ck_ibi_link_error",
        ),
        sa.CheckConstraint("failures >= 0", name="ck_ibi_link_failures"),
        sa.ForeignKeyConstraint(["archive_id"], ["ibi_archive.id"], name="fk_ibi_link_archive"),
        sa.PrimaryKeyConstraint("archive_id", "digest"),
    )
