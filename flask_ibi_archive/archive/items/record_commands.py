"""The commands import and export. They read and write items as JSON Lines."""

from __future__ import annotations

import gc
import io
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flask_ibi_archive.archive.items.works_commands import (
    import_works,
    works_options,
    write_counts,
)
from flask_ibi_archive.server.commands.group import get_archive
from flask_ibi_archive.server.commands.terminal import (
    Bars,
    standard_input,
    standard_output,
    write,
)

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive
    from flask_ibi_archive.archive.items.importing.importer import Counts, ImportSource
    from flask_ibi_archive.core.records.record import Record
    from flask_ibi_archive.errors import RecordError

#: The number of lines that export writes to standard output at a time.
LINES_PER_WRITE = 400
#: The number of items after which the progress bar is updated.
ITEMS_PER_UPDATE = 100


@click.command("import")
@click.argument("source", metavar="FILE")
@click.option(
    "--on-conflict",
    type=click.Choice(["error", "skip", "update"]),
    default="error",
    show_default=True,
    help="What to do with an item that already exists.",
)
@click.option(
    "--take-back",
    is_flag=True,
    help="With --on-conflict update: items whose Originals are elsewhere may become Originals.",
)
@click.option(
    "--files-folder",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help='The folder of the files that "source" fields name, instead of the folder of FILE.',
)
@click.option("--dry-run", is_flag=True, help="Check the file. Change nothing.")
@works_options
def import_command(
    source: str,
    on_conflict: str,
    take_back: bool,
    files_folder: Path | None,
    dry_run: bool,
    mint: bool,
    mapped: tuple[str, ...],
    ignored: tuple[str, ...],
    separator: str,
    identifiers: Path | None,
) -> None:
    """Import items from JSON Lines, or works from a table.

    FILE contains one item per line. The name - means standard input. If a line is wrong or the
    import is interrupted, no item is imported. The error names the file, the line and the field.
    Items may refer to each other in any order.

    After a move, the Original of an item is in another Archive. A line that would make a second
    Original here is refused. If the other Archive gives up its Original, take it back with
    --take-back.

    "source" fields name files in the folder of FILE or below. Paths are relative to this folder.
    No other files of this computer are read. If the files are in another folder, or FILE is -, name
    the folder with --files-folder.

    With --dry-run, nothing is changed. All errors are written to standard output, one per line.
    The exit status is 1 if there are errors. A line with an error is ignored when the other lines
    are checked.

    With --mint, FILE contains works without identifiers: a table (.csv), the format of this command
    without rep and ibip (.jsonl) or CSL-JSON (.json), which reference managers export. Each item
    gets identifiers in both forms. If there are errors, all of them are written, and nothing is
    imported. Works that have an item already are skipped, or update it with --on-conflict update.

    \b
    Example:
      flask --app example_app ibi import example_app/records/items.jsonl
      flask --app example_app ibi import items.jsonl --files-folder .
      flask --app example_app ibi import works.csv --mint --map title=Obra --identifiers new.csv
    """
    from flask_ibi_archive.archive.items.importing.importer import open_source

    if mint:
        import_works(
            source,
            files_folder,
            mapped,
            ignored,
            separator,
            identifiers,
            dry_run=dry_run,
            updates=on_conflict == "update",
            take_back=take_back,
        )
        return
    if mapped or ignored or identifiers:
        raise click.UsageError("--map, --ignore and --identifiers require --mint.")
    archive = get_archive()
    archive.check_has_items()
    archive_id = archive.served().id  # fails if there is no Archive, before anything is read
    standard_output()
    stream = standard_input() if source == "-" else io.BytesIO()
    with open_source(source, stream, files_folder) as opened, Bars(work="Importing") as bars:
        report = ImportReport(opened, bars, dry_run)
        counts = report.run(archive, archive_id, on_conflict=on_conflict, take_back=take_back)
    report.finish(counts)


class ImportReport:
    """Runs an import, and writes the errors and the counts of the import."""

    def __init__(self, source: ImportSource, bars: Bars, dry_run: bool) -> None:
        self._source = source
        self._bars = bars
        self._dry_run = dry_run
        self._errors = 0

    def run(self, archive: Archive, archive_id: int, **options: Any) -> Counts | None:
        """Run the import and return its counts; None if a dry run has found errors.

        :raises RecordError: if a record is wrong and this is not a dry run.
        """
        from flask_ibi_archive.archive.items.importing.importer import Importer
        from flask_ibi_archive.errors import RecordError

        importer = Importer(
            archive.database,
            archive_id,
            archive.files_folder,
            clock=archive.context.now,
            dry_run=self._dry_run,
            progress=partial(self._bars.show, "work") if self._bars.shown else None,
            on_error=self.write_error,
            notifier=archive.notifier,
            **options,
        )
        # the garbage collector must not examine the objects of the app again and again
        gc.freeze()
        try:
            counts = importer.run(self._source)
        except RecordError as error:
            if not self._dry_run:
                raise
            self.write_error(error)  # a dry run also ends after some errors
        finally:
            gc.unfreeze()
        return None if self._errors else counts

    def write_error(self, error: RecordError) -> None:
        """Write an error to standard output and count the error."""
        self._errors += 1
        self._bars.clear()
        write(str(error))

    def finish(self, counts: Counts | None) -> None:
        """Write the counts.

        :param counts: None if there were errors.
        :raises ClickException: if there were errors.
        """
        if counts is None:
            errors = "1 error" if self._errors == 1 else f"{self._errors} errors"
            raise click.ClickException(f"{self._source.name} has {errors}; nothing was changed")
        write_counts(counts, "would be " if self._dry_run else "")


@click.command("export")
@click.argument("target", metavar="[FILE]", default="-")
@click.option(
    "--files",
    metavar="FOLDER",
    type=click.Path(file_okay=False, path_type=Path),
    help='Copy the files to FOLDER. "source" is then relative to the folder of FILE.',
)
@click.option("--with-counts", is_flag=True, help="Add the daily counts of accesses.")
def export_command(target: str, files: Path | None, with_counts: bool) -> None:
    """Export all items as JSON Lines.

    The export contains all items in their state at one moment. Without FILE, the export is written
    to standard output. The command replaces an existing FILE only when the export is complete. The
    command import reads the same format.

    The field "source" is the path of a stored file in the files folder of the Archive. With
    --files, the stored files are copied to FOLDER. The export and FOLDER can then be imported on
    another computer.

    \b
    Example:
      flask --app example_app ibi export items.jsonl
      flask --app example_app ibi export items.jsonl --files files
    """
    from flask_ibi_archive.archive.items import exporting
    from flask_ibi_archive.core.records.fields import format_line

    archive = get_archive()
    exported = archive.list_records()
    # closing() ends the transaction of the generator, also after an error
    with closing(exported), Bars(items="Exporting") as bars:
        records: Iterator[Record] = exported
        if files is not None:
            base = Path() if target == "-" else Path(target).resolve().parent
            records = exporting.copy_files(records, files.resolve(), base)
        counted = _show_progress(records, archive, bars, target)
        texts = (
            exporting.format_with_counts(counted, archive.database, archive.served().id)
            if with_counts
            else map(format_line, counted)
        )
        lines = (text.encode() + b"\n" for text in texts)
        if target == "-":
            while block := b"".join(islice(lines, LINES_PER_WRITE)):
                write(block, nl=False)
        else:
            _write_file(Path(target), lines)


def _show_progress(
    records: Iterator[Record], archive: Archive, bars: Bars, target: str
) -> Iterator[Record]:
    """Yield the records and show a progress bar.

    There is no bar if the records themselves are written to a terminal.
    """
    if target == "-" and standard_output().isatty():
        yield from records
        return
    total = archive.items.count()
    if total is None:
        yield from records
        return
    for number, record in enumerate(records, 1):
        yield record
        if number % ITEMS_PER_UPDATE == 0 or number == total:
            bars.show("items", number, total)


def _write_file(path: Path, lines: Iterator[bytes]) -> None:
    """Write lines to a file, a pipe or a device.

    An existing file is replaced when all lines are written.

    :raises StorageError: if the file cannot be written.
    """
    from flask_ibi_archive.errors import StorageError
    from flask_ibi_archive.server.files import new_file

    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as stream:
                stream.writelines(lines)
            return
    except OSError as error:
        raise StorageError(f"{path} can't be written: {error.strerror}") from error
    # resolve() keeps a symbolic link; the umask restricts the permissions of a new file
    with new_file(path.resolve(), mode=0o666) as stream:
        stream.writelines(lines)
