"""The part of the command import that imports works without identifiers (``--mint``)."""

from __future__ import annotations

import csv
import gc
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flask_ibi_archive.server.commands.group import get_archive
from flask_ibi_archive.server.commands.terminal import Bars, standard_output, write

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive
    from flask_ibi_archive.archive.items.importing.importer import Counts
    from flask_ibi_archive.archive.items.importing.works import IdentifiedWork
    from flask_ibi_archive.errors import RecordError

#: The columns of the table of new identifiers.
COLUMNS = ("place", "key", "rep", "ibip", "url", "title")


def works_options(command: Any) -> Any:
    """Add the options for works without identifiers to a command."""
    options = [
        click.option(
            "--mint",
            is_flag=True,
            help="Import works without identifiers, and give each item new ones.",
        ),
        click.option(
            "--map",
            "mapped",
            multiple=True,
            metavar="FIELD=COLUMN",
            help="With --mint and CSV: the column that contains a field.",
        ),
        click.option(
            "--ignore",
            "ignored",
            multiple=True,
            metavar="COLUMN",
            help="With --mint and CSV: a column that is not read.",
        ),
        click.option(
            "--separator",
            default=";",
            show_default=True,
            help="With --mint and CSV: what separates several values in a cell.",
        ),
        click.option(
            "--identifiers",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="OUT.csv",
            help="With --mint: write the new identifiers to a table.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def import_works(
    source: str,
    files_folder: Path | None,
    mapped: Sequence[str],
    ignored: Sequence[str],
    separator: str,
    identifiers: Path | None,
    *,
    dry_run: bool,
    updates: bool,
    take_back: bool,
) -> None:
    """Import a file of works, and give each item new identifiers."""
    from flask_ibi_archive.archive.items.importing.source import open_source
    from flask_ibi_archive.archive.items.importing.works import WorksImporter
    from flask_ibi_archive.archive.items.importing.works_source import TABLES, read_works

    if source == "-":
        raise click.UsageError("--mint requires a file, whose name says what it contains.")
    if (mapped or ignored) and not source.lower().endswith(TABLES):
        raise click.UsageError("--map and --ignore are for the columns of a CSV file.")
    columns = dict(map(_parse_column, mapped))
    archive = get_archive()
    archive.check_has_items()
    context = archive.context  # fails if there is no Archive, before anything is read
    standard_output()
    errors = 0

    def write_error(error: RecordError) -> None:
        nonlocal errors
        errors += 1
        bars.clear()
        write(str(error))

    with (
        open_source(source, io.BytesIO(), files_folder) as opened,
        Bars(check="Checking", work="Importing") as bars,
        _write_identifiers(archive, None if dry_run else identifiers) as on_identified,
    ):
        works = read_works(opened, columns, separator, ignored)
        importer = WorksImporter(
            context,
            write_error,
            dry_run=dry_run,
            updates=updates,
            take_back=take_back,
            on_identified=on_identified,
            progress=bars.show if bars.shown else None,
        )
        # the garbage collector must not examine the objects of the app again and again
        gc.freeze()
        try:
            counts = importer.run(opened, works, Path(source).name)
        finally:
            gc.unfreeze()
        if counts is None:
            found = "1 error" if errors == 1 else f"{errors} errors"
            raise click.ClickException(f"{source} has {found}; nothing was changed")
    write_counts(counts, "would be " if dry_run else "")


def write_counts(counts: Counts, would: str) -> None:
    """Write the counts of an import; ``would`` precedes each word after a dry run."""
    write(
        f"{would}added {counts.added}, {would}updated {counts.updated}, "
        f"{would}skipped {counts.skipped}"
    )


def _parse_column(text: str) -> tuple[str, str]:
    """Return the name of a column and its field.

    :raises UsageError: if the field is unknown.
    """
    from flask_ibi_archive.core.records.readers.work_fields import FIELDS, find_column

    field, sign, column = text.partition("=")
    if not sign or not column or find_column(field) is None:
        raise click.UsageError(
            f"--map {text}: write FIELD=COLUMN; the fields are {', '.join(FIELDS)}."
        )
    return column, field


@contextmanager
def _write_identifiers(
    archive: Archive, path: Path | None
) -> Iterator[Callable[[IdentifiedWork], None] | None]:
    """Yield a function that adds a row to the table of identifiers; None without a table.

    An existing file is replaced when the import is complete.
    """
    if path is None:
        yield None
        return
    from flask_ibi_archive.server.files import new_file

    with new_file(path.resolve(), mode=0o666) as stream:
        # spreadsheets recognise UTF-8 by the mark at the beginning
        text = io.TextIOWrapper(stream, "utf-8-sig", newline="", write_through=True)
        rows = csv.writer(text)
        rows.writerow(COLUMNS)

        def add(work: IdentifiedWork) -> None:
            url = archive.persistent_url(work.ibip)
            rows.writerow((work.place, work.key, work.rep, work.ibip, url, work.title))

        yield add
        text.detach()
