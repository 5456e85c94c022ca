"""The guide to backups, executed: the restored Archive is the same, on both databases."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.documentation import FILES, Shell, commands, use_postgresql

PAGE = "howto/backup.rst"
#: How the commands for one kind of database begin.
OF_BACKEND = {"sqlite": "sqlite3 ", "postgresql": "pg_"}
#: How the first command of each part of the page begins.
BACKUP, RESTORE, MOVE, TASKS = PARTS = (
    "install ",
    "rsync --archive --ignore-existing ",
    "export FLASK_IBI_ARCHIVE_SERVICE_IBI=",
    "flask ibi purge",
)
URI = "export FLASK_SQLALCHEMY_DATABASE_URI=postgresql+psycopg:///repository"
RECORD = {
    "rep": "example.org/x/2009/07.21.13.23",
    "files": [{"path": "b.txt", "source": "rain.txt"}],
    "counts": [["2026-01-02", "Data", 3, 1, 0]],
}


def run(shell: Shell, first: str, backend: str) -> None:
    """Run the commands of a part of the page, without those for the other kind of database."""
    found = commands(PAGE)
    starts = [[one.startswith(part) for one in found].index(True) for part in PARTS]
    place = PARTS.index(first)
    others = tuple(start for kind, start in OF_BACKEND.items() if kind != backend)
    for command in found[starts[place] : [*starts, len(found)][place + 1]]:
        if not command.startswith(others):
            shell.check(command, "")


@pytest.mark.slow
@pytest.mark.postgresql
def test_a_restored_archive_is_the_same(backend: str, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(FILES["app.py"])
    (tmp_path / "rain.txt").write_text("It rained on 12 days.")
    (tmp_path / "counted.jsonl").write_text(json.dumps(RECORD))
    with Shell(tmp_path) as shell:
        use_postgresql(shell)
        if backend == "postgresql":
            for command in ("createdb repository", URI):
                shell.check(command, "")
        try:
            shell.execute("flask ibi init; flask ibi import counted.jsonl")
            shell.execute("flask add 'On rain' 'Silva, Ana' rain.txt")
            before = shell.execute("flask ibi export --with-counts")
            assert '"counts"' in before
            run(shell, BACKUP, backend)
            shell.execute("echo snow > snow.txt; flask add 'On snow' 'Silva, Ana' snow.txt")
            shell.execute("rm -r instance/ibi_files instance/ibi_claims/*.key")
            run(shell, RESTORE, backend)
            assert shell.execute("flask ibi export --with-counts") == before
            assert shell.execute("flask ibi verify") == ""
            shell.execute("flask rename $(flask ibi list | cut -f 2 | tail -n 1) 'Rain'")
            if backend == "sqlite":
                before = shell.execute("flask ibi export --with-counts")
                run(shell, MOVE, backend)
                assert shell.execute("flask ibi export --with-counts") == before
            run(shell, TASKS, backend)
        finally:
            shell.execute(shell.here("dropdb --force --if-exists repository"))
