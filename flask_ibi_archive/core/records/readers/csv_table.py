"""Reads works in a table: CSV, as spreadsheets write it.

The first row names the columns (:mod:`.work_fields`). Cells are separated by commas, semicolons or
tabs. A cell with several names, subjects or files separates them by a semicolon.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from itertools import chain

from flask_ibi_archive.core.records.fields import FieldError, quoted_name
from flask_ibi_archive.core.records.readers.entries import (
    Entry,
    Value,
    WorksFile,
    build_entry,
    digest,
    name_fields,
)
from flask_ibi_archive.core.records.readers.work_fields import (
    FIELDS,
    Column,
    find_column,
    fold,
    list_names,
)

#: What separates the values in a cell, unless the user states another text.
SEPARATOR = ";"
#: What replaces a byte that is not UTF-8.
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_DELIMITERS = ",;\t"
#: Excel reads the delimiter in this line, which is not part of the table.
_SEP = re.compile("sep=(.)\r?\n?", re.IGNORECASE)


def read_csv(
    lines: Iterable[str],
    columns: Mapping[str, str] | None = None,
    separator: str = SEPARATOR,
    ignored: Collection[str] = (),
) -> WorksFile:
    """Return the works of a table.

    :param lines: the lines of the file with their line ends. U+FFFD stands for a byte that is not
        UTF-8.
    :param columns: the fields of the columns whose names are not known, by the names of columns.
    :param separator: what separates several values in a cell.
    :param ignored: the names of columns that are not read.
    :raises FieldError: if the table has no row, or no column with titles.
    """
    try:
        rows = _open(iter(lines), columns or {})
        header = [name.strip() for name in next(rows, [])]
    except csv.Error as error:
        raise FieldError("", f"the first row is not CSV: {error}") from error
    found, errors = _find_columns(header, columns or {}, ignored)
    if not any(column and column.field == "title" for column in found):
        raise (
            errors[0]
            if errors
            else FieldError("", "the table has no column title; name it with --map title=COLUMN")
        )
    named = [(name, column) for name, column in zip(header, found, strict=True) if column]

    def read() -> Iterator[Entry]:
        if errors:
            yield Entry("row 1", {}, "", tuple(errors))
        yield from _read_rows(rows, header, found, separator)

    return WorksFile(read(), name_fields(named))


def _open(lines: Iterator[str], columns: Mapping[str, str]) -> Iterator[list[str]]:
    """Return the rows of a table with the delimiter that gives the most known columns."""
    first = next(lines, "").removeprefix("\ufeff")
    if stated := _SEP.fullmatch(first):
        return csv.reader(lines, delimiter=stated[1], strict=True)

    def count(delimiter: str) -> int:
        names = next(csv.reader([first], delimiter=delimiter), [])
        return sum(name in columns or find_column(name) is not None for name in names)

    best = max(_DELIMITERS, key=count)
    return csv.reader(chain([first], lines), delimiter=best, strict=True)


def _find_columns(
    header: list[str], columns: Mapping[str, str], ignored: Collection[str]
) -> tuple[list[Column | None], list[FieldError]]:
    """Return what each column contains (None: it is not read), and the errors of the header."""
    found: list[Column | None] = []
    names = list(map(quoted_name, header))
    errors = [
        FieldError(name, f"the table has no such column; its columns are {', '.join(names)}")
        for name in (*columns, *ignored)
        if name not in header
    ]
    taken: dict[Column, str] = {}
    for name in header:
        column = find_column(columns.get(name, name))
        if name in ignored or not name:
            found.append(None)
            continue
        found.append(column)
        if column is None:
            errors.append(FieldError(quoted_name(name), _explain_unknown(name)))
        elif column in taken and not FIELDS[column.field].path.endswith("[]"):
            reason = f"the column {taken[column]} already contains the field {column.field}"
            errors.append(FieldError(name, reason))
        else:
            taken[column] = name
    return found, errors


def _explain_unknown(name: str) -> str:
    """Return the message that a column is unknown, with the most similar known name."""
    folded = {fold(word): word for word in list_names()}
    close = get_close_matches(fold(name), folded, n=1, cutoff=0.6)
    meant = f"; did you mean {folded[close[0]]}?" if close else ""
    return (
        f"the column is unknown{meant}; say what it contains with --map FIELD=COLUMN, or leave it "
        "out with --ignore COLUMN"
    )


def _read_rows(
    rows: Iterator[list[str]], header: list[str], columns: list[Column | None], separator: str
) -> Iterator[Entry]:
    number = 1
    while True:
        number += 1
        place = f"row {number}"
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            yield Entry(place, {}, "", (FieldError("", f"the row is not CSV: {error}"),))
            continue
        if not any(map(str.strip, row)):
            continue
        if len(row) != len(header):
            reason = f"the row has {len(row)} cells, but the first row has {len(header)}"
            yield Entry(place, {}, "", (FieldError("", reason),))
            continue
        wrong = [
            FieldError(name, "the cell is not UTF-8; save the table as CSV UTF-8")
            for name, cell in zip(header, row, strict=True)
            if _REPLACEMENT in cell
        ]
        if any(cell.strip() for name, cell in zip(header, row, strict=True) if not name):
            wrong.append(FieldError("", "a cell is in a column that has no name in the first row"))
        if wrong:
            yield Entry(place, {}, "", tuple(wrong))
            continue
        values = _list_values(row, header, columns, separator)
        yield build_entry(place, digest("\x1f".join(row)), values)


def _list_values(
    row: list[str], header: list[str], columns: list[Column | None], separator: str
) -> Iterator[Value]:
    for name, column, cell in zip(header, columns, row, strict=True):
        if column is None:
            continue
        for text in cell.split(separator) if FIELDS[column.field].is_list else [cell]:
            yield name, column, text
