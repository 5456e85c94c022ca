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
ENDINGS = (*TABLES, ".jsonl", ".json")
#: Files that other programs convert to CSL-JSON, and the names of their formats in pandoc.
CONVERTED = {".bib": "bibtex", ".ris": "ris"}


def read_works(
    source: ImportSource,
    columns: Mapping[str, str],
    separator: str,
    ignored: Collection[str],
) -> WorksFile:
    """Return the works of a file. The parameters after ``source`` are those of a table.

    :raises StorageError: if the file has an unknown kind or cannot be read as a whole.
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
    except FieldError as error:
        raise StorageError(f"{source.name}: {error}") from error
    if ending in CONVERTED:
        path = Path(source.name)
        raise StorageError(
            f"{path} is not read; export CSL JSON from Zotero, or run: pandoc -f "
            f"{CONVERTED[ending]} -t csljson {path} -o {path.with_suffix('.json')}"
        )
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
