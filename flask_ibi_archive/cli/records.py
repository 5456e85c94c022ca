"""The commands import and export."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from flask.cli import with_appcontext

from flask_ibi_archive.cli.group import (
    Bars,
    say,
    standard_input,
    standard_output,
    the_archive,
    write,
)

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive_service import ArchiveService
    from flask_ibi_archive.archive.importing.importer import ImportResult, ImportSource
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
    help="What to do with an item that already exists.",
)
@click.option("--dry-run", is_flag=True, help="Check the file, change nothing.")
@click.option(
    "--resume",
    is_flag=True,
    help="Commit in batches; continue after the last batch of an interrupted run.",
)
@click.option(
    "--restart",
    is_flag=True,
    help="With --resume: start again at the first line; what was imported remains.",
)
@with_appcontext
def import_command(source: str, dry_run: bool, **options: Any) -> None:
    """Import items from a JSON Lines file.

    FILE contains one item per line; - is standard input. Either all items are imported or none: an
    error names file, line and field, and nothing is changed. Items may refer to each other in any
    order. Paths in "source" fields are relative to the folder of FILE.

    With --dry-run nothing is changed. All errors are written to standard output, one per line, and
    the exit status is 1 if there are any. Items with errors are ignored when other items are
    checked against them.

    With --resume the items are committed in batches. If the import is interrupted, by an error or
    because the process was killed, run the same command again to continue. Lines that are not yet
    imported may be corrected or added before. The command reports where it continues, and counts
    the items of this run.

    \b
    Example:
      flask --app example_app ibi import example_app/records/items.jsonl
      flask --app example_app ibi import million.jsonl --resume
    """
    from flask_ibi_archive.archive.importing.importer import Importer, open_source
    from flask_ibi_archive.errors import RecordError

    _check_options(source, dry_run, **options)
    archive = the_archive()
    archive_id = archive.served().id
    standard_output()
    given = standard_input() if source == "-" else io.BytesIO()
    with open_source(source, given) as opened, Bars(work="Importing") as bars:
        report = ImportReport(opened, bars)
        importer = Importer(
            archive.database,
            archive_id,
            archive.files_folder,
            dry_run=dry_run,
            progress=partial(bars.show, "work"),
            on_error=report.write_error,
            on_resume=report.write_state,
            **options,
        )
        try:
            result = importer.run(opened)
        except RecordError as error:
            if not dry_run:
                raise
            report.write_error(error)  # one that ends even a dry run
    report.finish(result if report.errors == 0 else None, dry_run)


class ImportReport:
    """Writes the errors of a dry run, where an import continues, and the counts at the end."""

    def __init__(self, source: ImportSource, bars: Bars) -> None:
        self._source = source
        self._bars = bars
        self.errors = 0

    def write_error(self, error: RecordError) -> None:
        """Write an error to standard output and count it."""
        self.errors += 1
        self._bars.clear()
        write(str(error))

    def write_state(self, state: ImportState) -> None:
        """Write to standard error where the import continues, and the counts of earlier runs."""
        from flask_ibi_archive.storage.imports import Phase

        name = self._source.name
        counts = f"added {state.added}, updated {state.updated}, skipped {state.skipped}"
        if state.phase is Phase.DONE:
            say(f"{name} was already imported completely: {counts}")
        elif state.phase is Phase.ITEMS:
            say(f"continuing {name} at line {state.line + 1}; done before: {counts}")
        else:
            say(f"continuing {name} with the references between its items; done before: {counts}")

    def finish(self, result: ImportResult | None, dry_run: bool) -> None:
        """Write the counts of this run; raise an error if there is no result."""
        if result is None:
            errors = "1 error" if self.errors == 1 else f"{self.errors} errors"
            raise click.ClickException(f"{self._source.name} has {errors}; nothing was changed")
        earlier = result.earlier
        would = "would be " if dry_run else ""
        write(
            f"{would}added {result.added - earlier.added}, "
            f"{would}updated {result.updated - earlier.updated}, "
            f"{would}skipped {result.skipped - earlier.skipped}"
        )


def _check_options(
    source: str, dry_run: bool, on_conflict: str, resume: bool, restart: bool
) -> None:
    if restart and not resume:
        raise click.UsageError("--restart requires --resume.")
    if resume and dry_run:
        raise click.UsageError(
            "--dry-run and --resume exclude each other: a dry run saves nothing."
        )
    if resume and source == "-":
        raise click.UsageError("--resume requires a file: standard input can't be read again.")


@click.command("export")
@click.argument("target", metavar="[FILE]", default="-")
@click.option(
    "--files",
    metavar="FOLDER",
    type=click.Path(file_okay=False, path_type=Path),
    help='Copy the files to FOLDER; "source" is then relative to the folder of FILE.',
)
@with_appcontext
def export_command(target: str, files: Path | None) -> None:
    """Export all items as JSON Lines.

    The items are written to FILE, or to standard output, as they are at one moment; import reads
    the same format. "source" is the path of a stored file in the files folder. FILE is replaced
    only when the export is complete. With --files the export can be imported on another computer,
    together with FOLDER.

    \b
    Example:
      flask --app example_app ibi export items.jsonl
      flask --app example_app ibi export items.jsonl --files files
    """
    from flask_ibi_archive.archive import exporting
    from flask_ibi_archive.records.format import format_line

    archive = the_archive()
    exported = exporting.export_records(archive.database, archive.served().id, archive.files_folder)
    # closed, since the generator keeps a transaction open after an error
    with closing(exported), Bars(items="Exporting") as bars:
        records: Iterator[ItemRecord] = exported
        if files is not None:
            base = Path() if target == "-" else Path(target).resolve().parent
            records = exporting.copy_files(records, files.resolve(), base)
        counted = _show_progress(records, archive, bars, target)
        lines = (format_line(record).encode() + b"\n" for record in counted)
        if target == "-":
            while block := b"".join(islice(lines, BLOCK)):
                write(block, nl=False)
        else:
            _write_file(Path(target), lines)


def _show_progress(
    records: Iterator[ItemRecord], archive: ArchiveService, bars: Bars, target: str
) -> Iterator[ItemRecord]:
    """Yield the records and show their progress, unless they are written to the same terminal."""
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


def _write_file(path: Path, lines: Iterator[bytes]) -> None:
    """Write lines to a file, which is replaced only when all are written; or to a pipe or device.

    :raises StorageError: if it cannot be written.
    """
    from flask_ibi_archive.errors import StorageError
    from flask_ibi_archive.storage.file_io import new_file

    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as stream:
                stream.writelines(lines)
            return
    except OSError as error:
        raise StorageError(f"{path} can't be written: {error.strerror}") from error
    # links are kept; the umask restricts the permissions of a new file
    with new_file(path.resolve(), mode=0o666) as stream:
        stream.writelines(lines)
