"""Read works without identifiers from tables and from JSON Lines.

A reader finds values (:class:`Value`) in a file, and :func:`build_entry` makes the JSON of a record
from them. The module ``csl_reader`` reads CSL-JSON in the same way.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import reduce
from hashlib import sha256
from itertools import chain, count
from typing import Any, NamedTuple

from flask_ibi_archive.core.records import values as parsers
from flask_ibi_archive.core.records.record import find_errors, parse_record, read_json
from flask_ibi_archive.core.records.values import FieldError, fold, quoted, quoted_name, wrong
from flask_ibi_archive.errors import ask_if_meant
from flask_ibi_archive.errors import translatable as _

# --- work fields -------------------------------------------------------------------------------


class Column(NamedTuple):
    """A column of a table: the name of the field, and the language of the texts or None."""

    field: str
    lang: str | None = None


class WorkField(NamedTuple):
    """How the values of a field are written in the JSON of a record.

    :param path: the path of the value. ``[]``: the value is added to a list. ``[n]``: values of
        several fields with the same position are one object, such as the first funder and the
        number of the first grant.
    :param words: the names of the field: the English one, and those in Portuguese and Spanish.
    :param is_list: whether a cell of a table may contain several values.
    :param member: the value becomes an object if it has a language or ``extra``; this is the name
        of the member that contains the value. "" if it never becomes an object.
    :param extra: the other members of the object.
    :param convert: converts a usual spelling to the spelling of records; may raise ValueError.
        None: the value is not converted.
    """

    path: str
    words: list[str]
    is_list: bool
    member: str
    extra: Mapping[str, str]
    convert: Callable[[str], Any] | None


def read_date(text: str, order: str = "") -> str:
    """Convert a date such as ``21/07/2009`` to ISO 8601; return any other text unchanged.

    :param order: the order of day and month, for dates such as ``03/04/2009``; see
        :func:`.values.find_date`.
    :raises ValueError: if the day and the month cannot be distinguished.
    """
    if found := parsers.find_date(text, order):
        return found.text
    if readings := parsers.find_readings(text):
        first, second = (one.text for one in readings.values())
        reason = _(
            "{text} may be {first} or {second}; write it as in 2009-07-21, or add --dates dmy",
            **{"text": quoted(text), "first": first, "second": second},
        )
        raise ValueError(reason)
    return text


def read_file(text: str) -> dict[str, str]:
    """Return the JSON object of a file on disk. In the item, the file has the same name."""
    return {"path": re.split(r"[/\\]", text)[-1], "source": text.replace("\\", "/")}


_CONVERT: Mapping[str, Callable[[str], Any]] = {
    **dict.fromkeys(("issued", "submitted", "available", "defended", "embargo"), read_date),
    "degree_level": parsers.choose_by_word("levels"),
    "access_right": parsers.choose_by_word("access rights"),
    "language": parsers.read_language,
    "licence": lambda text: parsers.find_licence(text) or text,
    "doi": lambda text: f"doi:{text}" if re.match(r"10\.[0-9]", text) else text,
    "files": read_file,
}


def _read_field(name: str, path: str, *words: str) -> WorkField:
    """Build a field from a row of the vocabulary of columns.

    :param path: the path in a record, such as ``.titles[].value kind=subtitle``. An asterisk at the
        beginning means that a cell may contain several values; a dot stands for ``metadata.work.``;
        after a space, a further member of the object may follow.
    :param words: the names of the column in Portuguese and Spanish, and other names.
    """
    path, *extra = path.split(maxsplit=1)
    path, brackets, member = path.partition("[].")
    return WorkField(
        re.sub(r"^\*?\.", "metadata.work.", path).lstrip("*") + brackets.rstrip("."),
        [name, *words],
        path.startswith("*"),
        member,
        dict(text.split("=") for text in extra),
        _CONVERT.get(name),
    )


#: The fields by their English names.
FIELDS = {name: _read_field(name, *row) for name, row in parsers.VOCABULARIES["columns"].items()}
#: The fields and the names as they are written, by the folded names.
_BY_NAME = {
    fold(word): (name, word) for name, described in FIELDS.items() for word in described.words
}
#: The language at the end of a name. The name itself is not matched, because that takes quadratic
#: time if it contains many spaces.
_LANGUAGE = re.compile(r"[\[(]([A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{1,8})*)[\])]\s*\Z")


def find_column(name: str) -> Column | None:
    """Find the field and the language of a column by its name; None if the name is unknown.

    A name may end with a language, as in ``title[en]`` or ``Resumo (pt-BR)``. DSpace adds a
    language to the name of any field; it is ignored if values of the field have no language.
    """
    if known := _BY_NAME.get(fold(name)):
        return Column(known[0])
    language = _LANGUAGE.search(name)
    known = _BY_NAME.get(fold(name[: language.start()])) if language else None
    if language is None or known is None:
        return None
    if FIELDS[known[0]].member != "value":
        return Column(known[0]) if name.startswith(_DSPACE) else None
    return Column(known[0], language[1].replace("_", "-"))


#: The beginning of the names of columns in tables of DSpace.
_DSPACE = "dc."


# --- entries -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of a table, or an entry of another file.

    :param place: where the entry is in the file, for messages, such as ``row 7``.
    :param data: the JSON object of a record without identifiers.
    :param key: the name of the entry in the file. The key of the record is made from this name,
        unless ``data`` contains a key.
    :param errors: what is wrong with the entry. The errors call the fields as the file does.
    :param warnings: what was changed or left out. They do not prevent the import of the entry.
    """

    place: str
    data: dict[str, Any] = field(default_factory=dict)
    key: str = ""
    errors: tuple[FieldError, ...] = ()
    warnings: tuple[FieldError, ...] = ()


class Value(NamedTuple):
    """A value that a reader finds in a file.

    :param name: the name of the field in the file.
    :param value: a text, or a JSON object such as a name; None: the value is left out.
    :param warning: what was changed or left out, for the user; or "".
    """

    name: str
    column: Column
    value: Any
    warning: str = ""


def leave_out(reason: str) -> str:
    """Return the text of a warning that a value is left out.

    :param reason: what is wrong with the value.
    """
    return _("{reason}; it is left out", reason=reason)


def omit(name: str, value: object, reason: str) -> Value:
    """Leave out a value: return a :class:`Value` that contains only a warning."""
    return Value(name, _NOTES, None, leave_out(wrong("", value, reason).reason))


def keep_as_note(name: str, text: str, reason: str) -> Value:
    """Keep a text as a note of the description, with a warning."""
    warning = _("{reason}; it is kept as a note", reason=reason)
    return Value(name, _NOTES, f"{name}: {text}", warning)


_NOTES = Column("notes")


def digest(text: str) -> str:
    """Return a short hash of a text. It identifies an entry without a name at the next import."""
    return sha256(text.encode()).hexdigest()[:16]


def build_entry(place: str, key: str, values: Iterable[Value]) -> Entry:
    """Build an entry from the values that a reader found.

    :param values: the values in the order of the file; empty ones are ignored.
    """
    data: dict[str, Any] = {}
    errors: list[FieldError] = []
    warnings: list[FieldError] = []
    counts: Counter[str] = Counter()
    values = _put_orcids_last(chain.from_iterable(map(_divide, values)))
    is_contained = any(one.column.field == "journal" and one.value for one in values)
    for value in values:
        if not is_contained:
            value = _take_from_container(value)
        name, column, stated, __ = value
        described = FIELDS[column.field]
        if isinstance(stated, str):
            stated = stated.strip()
            if described.convert is not None and stated:
                try:
                    stated = described.convert(stated)
                except ValueError as error:
                    errors.append(FieldError(name, error.args[0]))
                    continue
        number = counts[column.field]
        counts[column.field] += 1
        if stated:
            complete = _complete(stated, described, column.lang)
            if _set(data, described.path, number, complete) != complete:
                value = keep_as_note(name, stated, _("the field has another value"))
                _set(data, FIELDS["notes"].path, 0, value.value)
        if value.warning:
            warnings.append(FieldError(name, value.warning))
    return Entry(place, data, key, tuple(errors), tuple(warnings))


def _put_orcids_last(values: Iterable[Value]) -> list[Value]:
    """Move the values of a column of ORCIDs to the end, so that the authors precede them.

    The order of the ORCIDs is kept. If there is not one ORCID for each author, all are left out.
    """
    orcids, others = list[Value](), list[Value]()
    for value in values:
        (orcids if value.column.field == "orcid" else others).append(value)
    number = sum(bool(one.value) for one in others if one.column.field == "creators")
    while len(orcids) > number and not orcids[-1].value:
        orcids.pop()
    if len(orcids) != number and any(one.value for one in orcids):
        reason = _(
            "{count} ORCIDs for {number} authors; they are left out: write one for each author, in "
            "the same order",
            **{"count": len(orcids), "number": number},
        )
        orcids = [Value(orcids[0].name, _NOTES, None, reason)]
    return others + orcids


def _take_from_container(value: Value) -> Value:
    """Change a value about a journal, book or event for a work that appeared in none of them.

    A number of pages becomes the extent of the work. Any other such value becomes a note.
    """
    name, column, text, __ = value
    if not text or not FIELDS[column.field].path.startswith("metadata.work.container."):
        return value
    if column.field == "pages" and (found := re.fullmatch(r"([0-9]+)(?: ?[fp]\.?)?", text.strip())):
        return Value(name, Column("extent"), f"{text} p." if found[1] == text.strip() else text)
    return keep_as_note(name, text, _("the title of the journal, book or event is missing"))


#: Between two ISSNs or ISBNs: a space is only so in front of the beginning of an ISSN or ISBN.
_SEVERAL = re.compile(r"\s*[,;|]\s*|\s+(?=[0-9]{4}-[0-9]{3}[0-9Xx]|97[89])")


def _divide(value: Value) -> Iterator[Value]:
    """Yield a value. Several ISSNs or ISBNs are divided; all but the first are related works."""
    name, column, text, __ = value
    parse = {"issn": parsers.parse_issn, "isbn": parsers.parse_isbn}.get(column.field)
    numbers = _SEVERAL.split(text.strip()) if parse and isinstance(text, str) else []
    if parse is None or len(numbers) < 2:
        yield value
        return
    for text in filter(None, numbers):
        try:
            number = parse("", text)
        except FieldError as error:
            yield Value(name, column, None, leave_out(error.reason))
            continue
        # the relation of an ISBN is not known: another binding, or the book of a chapter
        is_issn = value.column.field == "issn"
        other = {"identifier": number, "relation": "IsPublishedIn"} if is_issn else number
        yield Value(name, column, number if column is value.column else other)
        column = Column("related")


def _complete(value: Any, described: WorkField, lang: str | None) -> Any:
    """Add the language and the ``extra`` members of the field, such as a role, to a value."""
    extra = {**described.extra, **({} if lang is None else {"lang": lang})}
    if not extra:
        return value
    return {**(value if isinstance(value, dict) else {described.member: value}), **extra}


def _set(data: dict[str, Any], path: str, number: int, value: Any) -> Any:
    """Set the value at a path of a field, unless there is a value; return what is there now.

    :param number: the number of the object that contains the value, if the path has ``[n]``.
    """
    *parents, last = path.split(".")
    for parent in parents:
        if parent.endswith("[n]"):
            objects = data.setdefault(parent.removesuffix("[n]"), [])
            objects.extend({} for _ in range(number + 1 - len(objects)))
            if isinstance(objects[number], str):
                objects[number] = {"name": objects[number]}
            data = objects[number]
        else:
            data = data.setdefault(parent, {})
    if not last.endswith("[]"):
        return data.setdefault(last, value)
    data.setdefault(last.removesuffix("[]"), []).append(value)
    return value


def name_fields(columns: Iterable[tuple[str, Column]]) -> Mapping[str, str]:
    """Return a dictionary from paths in a record to the names that these fields have in a file."""
    names: dict[str, list[str]] = {}
    for name, column in columns:
        path = re.sub(r"\[n?\]", "", FIELDS[column.field].path)
        names.setdefault(path, []).append(name)
    return {path: "/".join(dict.fromkeys(found)) for path, found in names.items()}


def name_field(path: str | None, names: Mapping[str, str]) -> str | None:
    """Return how the file calls the field of an error; the path itself if it has no name there.

    :param path: the path of the field in the record.
    :param names: the result of :func:`name_fields`.
    """
    plain = re.sub(r"\[[0-9]+\]", "", path or "")
    while plain not in ("", "metadata.work"):
        # the object at a path may be made of several fields
        inside = [name for one, name in names.items() if f"{one}.".startswith(f"{plain}.")]
        if inside:
            return names.get(plain) or "/".join(inside)
        plain = plain.rpartition(".")[0]
    return path


@dataclass(frozen=True, slots=True)
class WorksFile:
    """The content of a file, as a reader returns it.

    :param entries: the works of the file, each with its place in the file and its errors.
    :param names: the names of the fields in the file; see :func:`name_fields`.
    :param is_strict: whether each wrong value is an error. If False, :func:`leave_out_wrong` leaves
        out wrong values that are not essential.
    :param delimiter: the character between the cells of a table. A table that reports the result of
        the import uses the same character.
    :param unknown: the columns of a table whose names are not known.
    :param note: a message for the user about the whole file; or "".
    """

    entries: Iterable[Entry]
    names: Mapping[str, str] = field(default_factory=dict)
    is_strict: bool = False
    delimiter: str = ","
    unknown: Sequence[str] = ()
    note: str = ""


def leave_out_wrong(data: dict[str, Any]) -> Iterator[FieldError]:
    """Remove the wrong values of a description that are not essential, and yield the warnings.

    Essential are the title and the date of a work, and everything outside of the description.
    """
    while True:
        try:
            parse_record(data, has_identifier=False)
            return
        except FieldError:
            errors = find_errors(json.dumps(data))
        work = data.get("metadata", {}).get("work", {})
        is_dated = isinstance(work, dict) and "issued" in work
        errors = [error for error in errors if _is_secondary(error.field, is_dated)]
        for error in reversed(errors):  # the numbers of the members before stay as they are
            _remove(data, re.findall(r"[^.[\]]+", error.field))
            yield FieldError(error.field, leave_out(error.reason))
        if not errors:
            return


def _is_secondary(path: str, is_dated: bool = True) -> bool:
    """Return whether the value at a path of a record is not essential.

    :param is_dated: whether the work has a date of publication. If not, the date of the defence of
        a thesis is essential.
    """
    found = re.match(r"metadata\.work\.(\w+)(\.defended)?", path)
    return bool(found and found[1] not in ("titles", "issued") and (is_dated or not found[2]))


def _remove(data: Any, path: list[str]) -> None:
    """Remove the value at a path. If there is none, remove the object that should contain it."""
    *parents, last = path
    inside = reduce(lambda outer, name: outer[int(name) if name.isdigit() else name], parents, data)
    if isinstance(inside, list):
        del inside[int(last)]
    elif (inside.pop(last, None) is None or not inside) and len(parents) > 2:
        _remove(data, parents)


# --- json lines ----------------------------------------------------------------------------------


def read_json_lines(lines: Iterable[bytes]) -> WorksFile:
    """Read works from JSON Lines: each line is a record without identifiers."""
    return WorksFile(_read_lines(lines), is_strict=True)


def _read_lines(lines: Iterable[bytes]) -> Iterator[Entry]:
    for number, line in enumerate(lines, 1):
        text = line.removeprefix(b"\xef\xbb\xbf").strip()
        place = _("line {number}", number=number)
        if not text:
            continue
        try:
            data = read_json(text)
            parsers.check_object("", data, data)
        except FieldError as error:
            yield Entry(place, errors=(error,))
            continue
        errors = tuple(
            FieldError(name, "an item that gets new identifiers has none; import without --mint")
            for name in ("rep", "ibip", "aliases")
            if name in data
        )
        yield Entry(place, data, digest(text.decode("utf-8")), errors)


# --- csv table ---------------------------------------------------------------------------------


#: What separates the values in a cell, unless the user states another text.
SEPARATOR = ";"
#: Control characters, and what other programs write instead of a letter that they lost.
_DAMAGE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\N{REPLACEMENT CHARACTER}]")
_DAMAGED = _("contains control characters or damaged letters")
#: What names do not contain, unless there are several in a cell, or remarks.
_DOUBTFUL = re.compile(
    r"^,|,$|[|/()]|,.*\s(?:e|y|and|&)\s"
    r"|,.*,(?!\s*(?i:[js]r\.?|filho|netto|neto|j[uú]nior|sobrinho|[ivx]+)$)"
)
_DELIMITERS = ",;\t"
#: Excel reads the delimiter in this line, which is not part of the table.
_SEP = re.compile("sep=(.)\r?\n?", re.IGNORECASE)


def read_csv(
    lines: Iterable[str],
    columns: Mapping[str, str] | None = None,
    separator: str = SEPARATOR,
    ignored: Collection[str] = (),
    dates: str = "",
) -> WorksFile:
    """Read works from a table.

    :param lines: the lines of the file with their line ends. They are read twice.
    :param columns: the field of each column whose name is not a known name, by the name of the
        column.
    :param separator: the text between several values in a cell. In a cell that contains ``||``, the
        separator is ``||``.
    :param ignored: the names of columns that are not read.
    :param dates: the order of day and month in all columns: "dmy" or "mdy". "": a column in which
        some date has only one meaning shows the order.
    :raises FieldError: if the table has no row, or no column with titles.
    """
    columns = columns or {}
    try:
        delimiter, rows = _open(lines, columns)
        header = [name.strip() for name in next(rows, [])]
    except csv.Error as error:
        raise FieldError("", f"the first row is not CSV: {error}") from error
    found, errors = _find_columns(header, columns, ignored)
    has_title = any(column and column.field == "title" for column in found)
    if not (has_title or errors):
        raise FieldError("", _("the table has no column title; name it with --map title=COLUMN"))
    named = [(name, column) for name, column in zip(header, found, strict=True) if column]

    def read() -> Iterator[Entry]:
        if errors:
            yield Entry(_("row {number}", number=1), errors=tuple(errors))
        if not has_title:
            return
        orders = _find_orders(rows, found, dates)
        __, again = _open(lines, columns)
        next(again, None)
        for number, row in _number(again):
            place = _("row {number}", number=number)
            if isinstance(row, csv.Error):
                reason = _("the row is not CSV: {problem}", problem=row)
                yield Entry(place, errors=(FieldError("", reason),))
            elif any(map(str.strip, row)):
                yield _read_row(place, row, header, found, separator, orders)

    unknown = [name for name in header if name and find_column(name) is None]
    return WorksFile(read(), name_fields(named), delimiter=delimiter, unknown=unknown)


def _open(lines: Iterable[str], columns: Mapping[str, str]) -> tuple[str, Iterator[list[str]]]:
    """Open a table; return ``(delimiter, rows)``.

    The delimiter is stated in the first line (``sep=;``), or it is the one that gives the most
    columns with known names.

    DSpace writes a backslash in front of a comma that separates no cells.
    """
    lines = iter(lines)
    first = next(lines, "").removeprefix("\ufeff")
    if stated := _SEP.fullmatch(first):
        return stated[1], csv.reader(lines, delimiter=stated[1], strict=True)

    def list_names(delimiter: str) -> list[str]:
        return next(csv.reader([first], delimiter=delimiter), [])

    def count_known(delimiter: str) -> int:
        names = list_names(delimiter)
        return sum(name in columns or find_column(name) is not None for name in names)

    best = max(_DELIMITERS, key=count_known)
    escape = "\\" if any(name.startswith(_DSPACE) for name in list_names(best)) else None
    rows = csv.reader(chain([first], lines), delimiter=best, escapechar=escape, strict=True)
    return best, rows


def _number(rows: Iterator[list[str]]) -> Iterator[tuple[int, list[str] | csv.Error]]:
    """Yield ``(number, row)`` for each row after the header, from 2; an error for a wrong row."""
    for number in count(2):
        try:
            yield number, next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            yield number, error


def _find_orders(
    rows: Iterator[list[str]], columns: list[Column | None], stated: str
) -> dict[Column, str]:
    """Return the order of day and month by column, for columns in which some date shows it."""
    found = defaultdict[Column, set[str]](set)
    for __, row in _number(rows):
        for column, cell in zip(columns, row if isinstance(row, list) else (), strict=False):
            if column is not None and FIELDS[column.field].convert is read_date:
                readings = {stated} if stated else {*parsers.find_readings(cell)}
                found[column] |= readings if len(readings) == 1 else set()
    return {column: orders.pop() for column, orders in found.items() if len(orders) == 1}


def _find_columns(
    header: list[str], columns: Mapping[str, str], ignored: Collection[str]
) -> tuple[list[Column | None], list[FieldError]]:
    """Return ``(columns, errors)`` of a header; a column that is not read is None."""
    names = ", ".join(map(quoted_name, header))
    errors = [
        FieldError(name, _("the table has no such column; its columns are {names}", names=names))
        for name in (*columns, *ignored)
        if name not in header
    ]
    contained: list[Column | None] = []
    taken: dict[Column, str] = {}
    for name in header:
        is_read = name and name not in ignored
        column = find_column(columns.get(name, name)) if is_read else None
        contained.append(column)
        if column is None:
            if is_read:
                errors.append(FieldError(quoted_name(name), _explain_unknown(name)))
        elif column in taken and not FIELDS[column.field].path.endswith("[]"):
            reason = _(
                "the column {other} already contains the field {field}",
                **{"other": taken[column], "field": column.field},
            )
            errors.append(FieldError(name, reason))
        else:
            taken[column] = name
    return contained, errors


def _explain_unknown(name: str) -> str:
    """Return the message that a column is unknown, with the most similar known name."""
    words = {key: word for key, (__, word) in _BY_NAME.items() if not word.startswith(_DSPACE)}
    folded = fold(name)
    close = get_close_matches(folded, words, n=1, cutoff=0.6) if len(folded) > 3 else []
    return _(
        "the column is unknown{meant}; say what it contains (--map FIELD=COLUMN), or leave it out "
        "(--ignore COLUMN)",
        meant=ask_if_meant(words[close[0]] if close else None),
    )


def _read_row(
    place: str,
    row: list[str],
    header: list[str],
    columns: list[Column | None],
    separator: str,
    orders: Mapping[Column, str],
) -> Entry:
    if any(map(str.strip, row[len(header) :])):
        reason = _(
            "the row has {count} cells, but the first row has {number}",
            **{"count": len(row), "number": len(header)},
        )
        return Entry(place, errors=(FieldError("", reason),))
    # Excel leaves out empty cells at the end of a row, or adds some
    row = [*row, *[""] * (len(header) - len(row))][: len(header)]
    errors = []
    values: list[Value] = []
    for name, column, cell in zip(header, columns, row, strict=True):
        if not name and cell.strip():
            reason = _("a cell is in a column that has no name in the first row")
            errors.append(FieldError("", reason))
        if column is None:
            continue
        described = FIELDS[column.field]
        if _DAMAGE.search(cell) and not _is_secondary(described.path):
            errors.append(wrong(name, cell, _DAMAGED))
        used = "||" if "||" in cell else separator
        values += (
            _read_text(name, column, text.strip(), orders.get(column, ""))
            for text in (cell.split(used) if described.is_list else [cell])
        )
    if errors:
        return Entry(place, errors=tuple(errors))
    return build_entry(place, digest("\x1f".join(row)), values)


def _read_text(name: str, column: Column, text: str, order: str) -> Value:
    """Return a value of a cell, with a warning if the meaning is not certain."""
    if _DAMAGE.search(text):
        reason = _("{reason}; they are removed", reason=wrong("", text, _DAMAGED).reason)
        return Value(name, column, _DAMAGE.sub(" ", text), reason)
    if order:
        return Value(name, column, read_date(text, order))
    if FIELDS[column.field].member == "name":
        found, person = parsers.ORCID.search(text), parsers.ORCID.sub(" ", text).strip(" ")
        if found and parsers.check_orcid(found) is None:
            reason = _("contains an ORCID whose check digit is wrong")
            return Value(name, column, person, leave_out(wrong("", text, reason).reason))
        if _DOUBTFUL.search(person):
            reason = _("may not be one name such as Silva, Ana")
            return Value(name, column, text, wrong("", text, reason).reason)
    return Value(name, column, text)
