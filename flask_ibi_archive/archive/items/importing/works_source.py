"""Opens files of works: the end of the name of a file says which reader reads it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from flask_ibi_archive.archive.items.importing.source import ImportSource
from flask_ibi_archive.core.records.fields import FieldError
from flask_ibi_archive.core.records.readers import csl_items, csv_table
from flask_ibi_archive.core.records.readers.entries import WorksFile
from flask_ibi_archive.errors import StorageError

TABLES = (".csv", ".tsv")
ENDINGS = (*TABLES, ".jsonl", ".json", ".bib", ".ris")


def read_works(
    source: ImportSource,
    columns: Mapping[str, str],
    separator: str,
    ignored: Collection[str],
) -> WorksFile:
    """Return the works of a file. The parameters after ``source`` are those of a table.

    :raises StorageError: if the file has an unknown kind, cannot be read as a whole, or if a
        library is missing.
    """
    ending = Path(source.name).suffix.lower()
    try:
        if ending in TABLES:
            lines = (line.decode("utf-8", "replace") for line in source.stream)
            return csv_table.read_csv(lines, columns, separator, ignored)
        if ending == ".jsonl":
            return csl_items.read_json_lines(source.stream)
        if ending == ".json":
            return csl_items.read_csl_json(_read_text(source))
        if ending == ".bib":
            from flask_ibi_archive.core.records.readers.bibtex import read_bibtex

            return read_bibtex(_read_text(source))
        if ending == ".ris":
            from flask_ibi_archive.core.records.readers.ris import read_ris

            return read_ris(_read_text(source).splitlines())
    except FieldError as error:
        raise StorageError(f"{source.name}: {error}") from error
    except ModuleNotFoundError as error:
        library = str(error.name).partition(".")[0]
        raise StorageError(
            f"{source.name} can't be read without the library {library}; run: "
            "pip install 'flask_ibi_archive[imports]'"
        ) from error
    raise StorageError(
        f"{source.name} is not a file of works; its name must end with {', '.join(ENDINGS)}"
    )


def _read_text(source: ImportSource) -> str:
    try:
        return source.stream.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise StorageError(
            f"{source.name} is not UTF-8 text (byte {error.start + 1}); save it as UTF-8"
        ) from error
