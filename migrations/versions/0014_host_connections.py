"""Triggers that keep the rows of an item together on connections that do not check foreign keys.

A host with a session shares its connections with our operations. On SQLite, foreign keys are off unless the
host turns them on. Then their actions (ON UPDATE CASCADE, ON DELETE CASCADE) do not happen.

Revision: 0014, after 0013.
"""

from __future__ import annotations

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

TABLES = ("ibi_identifier", "ibi_file", "ibi_tombstone", "ibi_harvest_set", "ibi_harvest")
DELETES = " ".join([f"DELETE FROM {table} WHERE item_id = OLD.id;" for table in TABLES])
TRIGGERS = {
    "tr_ibi_item_state": """AFTER UPDATE OF state ON ibi_item WHEN NEW.state <> OLD.state
        BEGIN UPDATE ibi_identifier SET state = NEW.state WHERE item_id = NEW.id; END""",
    "tr_ibi_item_parts": f"AFTER DELETE ON ibi_item BEGIN {DELETES} END",
}


def upgrade() -> None:
    """Create the triggers on SQLite."""
    if op.get_bind().dialect.name == "sqlite":
        for name, body in TRIGGERS.items():
            op.execute(f"CREATE TRIGGER {name} {body}")


def downgrade() -> None:
    """Drop the triggers."""
    if op.get_bind().dialect.name == "sqlite":
        for name in TRIGGERS:
            op.execute(f"DROP TRIGGER IF EXISTS {name}")
