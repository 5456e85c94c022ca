"""The commands as separate processes, as users run them.

Each process takes almost a second to start. So each test runs as few processes as possible, and
tests of many commands are marked slow.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from support.commands import ROOT, Outcome, environment, process
from support.loopback import PATIENCE

RECORDS = "example_app/records/items.jsonl"


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """The folder of an example app with items."""
    for words in (("init",), ("import", RECORDS)):
        assert process(tmp_path, "ibi", *words).status == 0
    return tmp_path


@pytest.mark.slow
def test_an_export_can_be_imported_through_pipes(example: Path) -> None:
    # a value of digits in the environment is read as a number or, if a text is needed, as a text
    settings = {"FLASK_IBI_GRANULARITY": "1", "FLASK_IBI_REGISTRATION_KEY": "0123456789"}
    piped = process(example, "ibi", "export", **settings)
    options = ("--on-conflict", "skip", "--files-folder", str(example / "files"))
    again = process(example, "ibi", "import", *options, "-", stdin=piped.raw)
    assert again.data == "added 0, updated 0, skipped 9\n"


def test_commands_work_without_an_app_if_they_need_none(tmp_path: Path) -> None:
    def bare(*words: str) -> Outcome:
        return process(tmp_path, "ibi", *words, cwd=tmp_path, FLASK_APP="")

    assert bare("decode", "8JMKD3MGP8W/34PGRBS").lines[0] == "form ibip"
    listed = bare("list")
    assert (listed.status, listed.out) == (2, "")
    assert "Could not locate a Flask application" in listed.err
    assert "Traceback" not in listed.err


@pytest.mark.slow
def test_the_modules_of_the_commands_load_nothing_heavy() -> None:
    code = (
        "import sys, flask_ibi_archive.archive.commands as cli, click\n"
        "context = click.Context(cli.ibi)\n"
        "for name in cli.ibi.list_commands(context): cli.ibi.get_command(context, name)\n"
        "heavy = {'sqlalchemy', 'alembic', 'requests', 'urllib3'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
        "import flask_ibi_archive.extension, flask_ibi_archive.resolver\n"
        "print('alembic' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\nFalse\n"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_downgrade_asks_first_on_a_terminal(example: Path) -> None:
    import pty

    before = dump(example)
    ours, theirs = pty.openpty()
    os.write(ours, b"n\n")
    words = [sys.executable, "-m", "flask", "ibi", "downgrade", "base"]
    done = subprocess.run(
        words, cwd=ROOT, env=environment(example), stdin=theirs, capture_output=True, check=False
    )
    os.close(theirs)
    os.close(ours)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"Downgrade the tables to base? Data may be lost." in done.stderr
    assert dump(example) == before


def shell(folder: Path, line: str, **more: str) -> Outcome:
    """Run ``flask ibi LINE`` in a shell, which may close or break the standard streams."""
    done = subprocess.run(
        ["sh", "-c", f'"$PYTHON" -m flask ibi {line}'],
        cwd=ROOT,
        env=environment(folder, PYTHON=sys.executable, OUT=str(folder), **more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode(), done.stdout)


posix = pytest.mark.skipif(os.name != "posix", reason="there is no sh")
full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
#: Commands that write data with different functions.
WRITE_DATA = ("list", "export", "decode 8JMKD3MGP8W/34PGRBS")
CHANGE = ("mint", "add README.rst", f"import --on-conflict skip {RECORDS}")


@pytest.mark.slow
@posix
@full
def test_a_full_disk_is_an_error_of_one_line_if_data_are_lost(example: Path) -> None:
    for line in WRITE_DATA:
        message = shell(example, f"{line} > /dev/full").error
        assert message == "standard output can't be written: No space left on device"
    assert len(shell(example, "mint 2> /dev/full").lines) == 1, "only a warning is lost"


@pytest.mark.slow
@posix
def test_a_closed_standard_output_is_an_error_of_one_line_and_nothing_is_changed(
    example: Path,
) -> None:
    before = dump(example)
    for line in (*WRITE_DATA, *CHANGE):
        message = shell(example, f"{line} >&-").error
        assert message == "standard output can't be written: it is closed"
    assert dump(example) == before


def dump(folder: Path) -> list[str]:
    """Return the content of the example's database."""
    with closing(sqlite3.connect(folder / "ibi.sqlite")) as database:
        return list(database.iterdump())


@pytest.mark.slow
@posix
def test_a_closed_pipe_is_not_an_error(example: Path) -> None:
    for line in WRITE_DATA:
        gone = shell(example, f"{line} | true")
        assert (gone.status, gone.out, gone.err) == (0, "", "")
