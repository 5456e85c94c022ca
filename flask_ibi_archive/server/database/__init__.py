"""Access to the database: engines, the time budget of a request, migrations."""
