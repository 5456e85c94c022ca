"""Many items at a time: import, export."""

from __future__ import annotations

import io
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click
from flask.cli import with_appcontext

from flask_ibi_archive.cli.bars import Bars
from flask_ibi_archive.cli.group import say, standard_input, standard_output, the_archive, write

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive_service import ArchiveService
    from flask_ibi_archive.archive.importing.importer import ImportSource
    from flask_ibi_archive.errors import RecordError
    from flask_ibi_archive.records.record import ItemRecord
    from flask_ibi_archive.storage.imports import ImportState

#: Lines that are written to standard output at a time.
BLOCK = 400
#: Items after which the progress bar moves.
STEP = 100


@click.command("import")
@click.argument("source", metavar="FILE")
@click.option(
    "--on-conflict",
    type=click.Choice(["error", "skip", "update"]),
    default="error",
    show_default=True,
    help="What to do with an item that is here already.",
)
@click.option("--dry-run", is_flag=True, help="Check the file, change nothing.")
@click.option(
    "--resume", is_flag=True, help="Keep what is done; go on where the last run broke off."
)
@click.option(
    "--restart",
    is_flag=True,
    help="With --resume: forget the run that broke off and begin anew; what it took in stays.",
)
@with_appcontext
def import_command(
    source: str, on_conflict: str, dry_run: bool, resume: bool, restart: bool
) -> None:
    """Import items from a JSON Lines file.

    FILE has one item a line; - is standard input. All of them or none: an error names file, line
    and field, and then nothing was changed. The items may refer to each other in any order. Paths
    in "source" fields are relative to the folder of FILE.

    With --dry-run nothing is changed, and all errors are listed on standard output, a line each;
    the status is 1 if there are any. Items with an error are left out when the others are compared
    with each other.

    With --resume what is done is kept as it goes on. Broken off, by an error or by force, it goes
    on when the same command is run again; lines that are not done yet may be mended, or added, in
    between. It says where it continues, and counts what this run did.

    \b
    Example:
      flask --app example_app ibi import example_app/records/items.jsonl
      flask --app example_app ibi import million.jsonl --resume
    """
    from flask_ibi_archive.archive.importing.importer import Importer, open_source
    from flask_ibi_archive.errors import RecordError

    _check_options(source, dry_run, resume, restart)
    archive = the_archive()
    served = archive.served()
    standard_output()
    given = standard_input() if source == "-" else io.BytesIO()
    with open_source(source, given) as opened, Bars(work="Importing") as bars:
        watch = ImportWatch(opened, bars)
        importer = Importer(
            archive.database,
            served.id,
            archive.files_folder,
            on_conflict,
            dry_run,
            resume,
            restart,
            progress=watch.show_progress,
            on_error=watch.list_error,
            on_resume=watch.tell_place,
        )
        try:
            result = importer.run(opened)
        except RecordError as error:
            if not dry_run:
                raise
            watch.list_error(error)  # one that the dry run can't go on after
    if watch.errors:
        counted = "1 error" if watch.errors == 1 else f"{watch.errors} errors"
        raise click.ClickException(f"{opened.name} has {counted}; nothing was changed")
    would = "would be " if dry_run else ""
    write(
        f"{would}added {result.added - result.earlier.added}, "
        f"{would}updated {result.updated - result.earlier.updated}, "
        f"{would}skipped {result.skipped - result.earlier.skipped}"
    )


class ImportWatch:
    """Shows how an import goes on, where it continues, and the errors of a dry run, which it
    counts.
    """

    def __init__(self, source: ImportSource, bars: Bars) -> None:
        self._source = source
        self._bars = bars
        self._done = 0
        self.errors = 0

    def show_progress(self, units: int) -> None:
        """Show that some more of the work is done."""
        from flask_ibi_archive.archive.importing.importer import work_of

        self._done += units
        self._bars.show("work", self._done, work_of(self._source.size))

    def list_error(self, error: RecordError) -> None:
        """Write an error to standard output."""
        self.errors += 1
        self._bars.clear()
        write(str(error))

    def tell_place(self, state: ImportState) -> None:
        """Write to standard error where the import continues, and what the runs before did."""
        from flask_ibi_archive.storage.imports import Phase

        name = self._source.name
        done = f"added {state.added}, updated {state.updated}, skipped {state.skipped}"
        if state.phase is Phase.DONE:
            say(f"{name} was already imported completely: {done}")
        elif state.phase is Phase.ITEMS:
            say(f"continuing {name} at line {state.line + 1}; done before: {done}")
        else:
            say(f"continuing {name} with the references between its items; done before: {done}")


def _check_options(source: str, dry_run: bool, resume: bool, restart: bool) -> None:
    if restart and not resume:
        raise click.UsageError("--restart goes with --resume.")
    if resume and dry_run:
        raise click.UsageError("--dry-run changes nothing that --resume could go on with.")
    if resume and source == "-":
        raise click.UsageError("--resume needs a file: standard input can't be read again.")


@click.command("export")
@click.argument("target", metavar="[FILE]", default="-")
@click.option(
    "--files",
    metavar="FOLDER",
    type=click.Path(file_okay=False, path_type=Path),
    help='Copy the files into FOLDER; "source" is then relative to the folder of FILE.',
)
@with_appcontext
def export_command(target: str, files: Path | None) -> None:
    """Export all items as JSON Lines.

    FILE is standard output unless given; import reads it. All as they are at one moment. A file
    that is kept here is named by its place ("source"). FILE is replaced only when all is written.
    With --files it can be imported elsewhere, together with FOLDER.

    \b
    Example:
      flask --app example_app ibi export items.jsonl
      flask --app example_app ibi export items.jsonl --files files
    """
    from flask_ibi_archive.archive import exporting
    from flask_ibi_archive.errors import StorageError
    from flask_ibi_archive.records.format import format_line

    archive = the_archive()
    exported = exporting.export_records(archive.database, archive.served().id, archive.files_folder)
    # closed: what is left of it when something fails keeps a transaction open
    with closing(exported), Bars(items="Exporting") as bars:
        records: Iterator[ItemRecord] = exported
        if files is not None:
            base = Path() if target == "-" else Path(target).resolve().parent
            records = exporting.copy_files(records, files.resolve(), base)
        watched = _watched(records, archive, bars, target)
        lines = (format_line(record).encode() + b"\n" for record in watched)
        if target == "-":
            while block := b"".join(islice(lines, BLOCK)):
                write(block, nl=False)
            return
        try:
            _replace(Path(target).resolve(), lines)
        except OSError as error:
            raise StorageError(f"{target} can't be written: {error.strerror}") from error


def _watched(
    records: Iterator[ItemRecord], archive: ArchiveService, bars: Bars, target: str
) -> Iterator[ItemRecord]:
    """Yield records and show how many of all they are, unless they are shown on the terminal
    themselves.
    """
    from flask_ibi_archive.storage.reading import ItemReader

    if target == "-" and standard_output().isatty():
        yield from records
        return
    archive_id = archive.served().id
    total = archive.database.read(
        lambda connection: ItemReader(connection, archive_id).count_records()
    )
    for number, record in enumerate(records, 1):
        yield record
        if number % STEP == 0 or number == total:
            bars.show("items", number, total)


def _replace(path: Path, lines: Iterable[bytes]) -> None:
    """Write lines to a file, which is the old one until all is written, and has its mode then."""
    if path.exists() and not path.is_file():  # a pipe or a device stays what it is
        with path.open("wb") as stream:
            stream.writelines(lines)
        return
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
    temporary = path.with_name(f".new-{secrets.token_hex(8)}")

    def create(name: str, flags: int) -> int:
        # never more open than the old one; the umask may take something away
        return os.open(name, flags, 0o666 if mode is None else mode)

    try:
        with open(temporary, "xb", opener=create) as new:
            if mode is not None:
                temporary.chmod(mode)
            new.writelines(lines)
            new.flush()
            os.fsync(new.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
