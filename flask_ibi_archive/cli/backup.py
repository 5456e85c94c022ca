"""All of it in one file, and back: backup, restore."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from flask.cli import with_appcontext

from flask_ibi_archive.cli.bars import Bars
from flask_ibi_archive.cli.group import (
    json_option,
    say,
    standard_output,
    the_archive,
    warn,
    write,
    write_json,
)

if TYPE_CHECKING:
    from flask_ibi_archive.archive.backup.writing import BackedUp, ContentFault


@click.command("backup")
@click.argument("target", metavar="FILE", type=click.Path(path_type=Path))
@json_option
@with_appcontext
def backup_command(target: Path, as_json: bool) -> None:
    """Write the database and all files to a ZIP file.

    All Archives of the database, as they are at one moment, whatever is written meanwhile. FILE is
    replaced only when all is written; it can be restored to SQLite and to PostgreSQL. It holds the
    files that are open to a few only, and the administrator's address: keep it as safe as the
    database. Settings (keys, SECRET_KEY) are not in it. A content that is missing or damaged is
    told; the rest is written, and the status is 1.

    \b
    Example:
      flask --app example_app ibi backup /var/backups/archive.zip
    """
    archive = the_archive()
    if as_json:
        standard_output()
    with Bars(rows="Writing tables", bytes="Writing files") as bars:

        def tell(fault: ContentFault) -> None:
            bars.clear()
            say(f"{fault.kind}: {fault.text}")

        done = archive.backup(target, tell, bars.show)
    _tell(done, "written", as_json)
    if done.faults:
        say(
            f"Error: {done.faults} contents are not in {target} as they should be; verify tells which "
            "files need them"
        )
        raise click.exceptions.Exit(1)


@click.command("restore")
@click.argument("source", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Check FILE, change nothing.")
@click.option("--replace", is_flag=True, help="Take out first what the database holds.")
@click.option("--yes", is_flag=True, help="Don't ask.")
@json_option
@with_appcontext
def restore_command(source: Path, dry_run: bool, replace: bool, yes: bool, as_json: bool) -> None:
    """Restore a backup, completely or not at all.

    The database must hold no Archive; with --replace what it holds is taken out first, which asks
    on a terminal. FILE is checked before anything is changed. Identifiers given from then on are
    none of those given before, even where FILE doesn't know of them; for that the clock must be
    right. With --dry-run a database that holds no Archive is filled and emptied again. Servers that
    run are to be started anew.

    \b
    Example:
      flask --app example_app ibi restore /var/backups/archive.zip
    """
    archive = the_archive()
    if as_json or dry_run:
        standard_output()
    # --replace says what is lost, so that a script is not asked again
    asks = replace and not (dry_run or yes)
    if asks and sys.stdin is not None and sys.stdin.isatty():
        click.confirm(
            "Take out what the database holds? What FILE has not is lost.", abort=True, err=True
        )
    with Bars(bytes="Checking", rows="Restoring tables") as bars:
        done = archive.restore(source, replace, dry_run, bars.show)
    if dry_run and not as_json:
        write(f"would be restored: {_in_words(done)}")
    else:
        _tell(done, "restored", as_json)
    if done.faults:
        warn(f"{done.faults} contents were missing or damaged when {source} was made: run verify")


def _in_words(done: BackedUp) -> str:
    return (
        f"{len(done.archives)} Archives ({', '.join(done.archives)}), {done.items} items, "
        f"{done.contents} contents ({done.bytes} bytes)"
    )


def _tell(done: BackedUp, verb: str, as_json: bool) -> None:
    if as_json:
        write_json(asdict(done))
    elif sys.stderr.isatty():
        say(f"{verb}: {_in_words(done)}")
