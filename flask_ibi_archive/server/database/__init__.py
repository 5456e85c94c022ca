"""Access to the database: engines, the time limit of a statement, migrations."""
