"""Readers of works without identifiers: tables and JSON Lines. That of CSL-JSON is separate."""

from __future__ import annotations

import csv
import json
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from hashlib import sha256
from itertools import chain, count
from typing import Any, NamedTuple

from flask_ibi_archive.core.records import values as parsers
from flask_ibi_archive.core.records.record import (
    find_errors,
    parse_record,
    read_json,
)
from flask_ibi_archive.core.records.values import FieldError, quoted, quoted_name, wrong
from flask_ibi_archive.errors import ask_if_meant
from flask_ibi_archive.errors import translatable as _

# --- work fields -------------------------------------------------------------------------------


class Column(NamedTuple):
    """A column of a table: the name of its field, and the language of its texts, or None."""

    field: str
    lang: str | None = None


class WorkField(NamedTuple):
    """What a field becomes in the JSON of a record.

    :param path: the path of the value; ``[]`` means that the value is added to a list, and ``[n]``
        that the values of several fields belong together: the first funder and the first number of
        a grant.
    :param words: the names of the field: the English one, and those in Portuguese and Spanish.
    :param is_list: whether a cell of a table may contain several values.
    :param member: the member of an object that contains the value, if the value has a language or
        ``extra``; or "".
    :param extra: the other members of the object.
    :param convert: reads the usual spellings of a value; raises ValueError.
    """

    path: str
    words: list[str]
    is_list: bool
    member: str
    extra: Mapping[str, str]
    convert: Callable[[str], Any] | None


def fold(name: str) -> str:
    """Return a name in lower case without accents, spaces and punctuation."""
    # one by one, because to sort many accents on one letter takes quadratic time
    decomposed = "".join(unicodedata.normalize("NFKD", letter) for letter in name.casefold())
    return re.sub(r"[^\w]|_|[\u0300-\u036f]", "", decomposed)


def _choose(table: str) -> Callable[[str], str]:
    """Return a function that replaces the words of other languages; other texts stay."""
    words = parsers.VOCABULARIES[table].items()
    known = {fold(word): value for value, others in words for word in others}
    return lambda text: known.get(fold(text), text)


_LANGUAGES = _choose("languages")


def read_language(text: str) -> str:
    """Return a language such as ``pt-BR``, which a table writes as ``pt_BR`` or ``Português``."""
    found = _LANGUAGES(text)
    primary, dash, region = found.replace("_", "-").partition("-")
    return f"{primary.lower()}-{region.upper()}" if dash and len(region) == 2 else found


#: A date whose year is its last number, and perhaps the time that spreadsheets add.
_YEAR_LAST = re.compile(r"([0-9]{1,2})[/.-]([0-9]{1,2})[/.-]([0-9]{4})(?:[ T][0-9:.]+)?")


def find_order(text: str) -> str:
    """Return the order of day and month in a date: "dmy", "mdy", or "" if it is not certain."""
    found = _YEAR_LAST.fullmatch(text.strip())
    if found is None:
        return ""
    return "dmy" if int(found[1]) > 12 else "mdy" if int(found[2]) > 12 else ""


def read_date(text: str, order: str = "") -> str:
    """Return a date in ISO 8601, which a table may write as ``21/07/2009``.

    :param order: the order of day and month if the date alone does not say it; see
        :func:`find_order`.
    :raises ValueError: if the day and the month cannot be distinguished.
    """
    if found := _YEAR_LAST.fullmatch(text):
        first, second, year = map(int, found.groups())
        order = find_order(text) or order
        dates = f"{year}-{second:02}-{first:02}", f"{year}-{first:02}-{second:02}"
        if first != second and not order:
            reason = _(
                "{text} may be {first} or {second}; write it as in 2009-07-21, or add --dates dmy",
                **{"text": quoted(text), "first": dates[0], "second": dates[1]},
            )
            raise ValueError(reason)
        return dates[order == "mdy"]
    if found := re.fullmatch(r"([0-9]{1,2})[/.-]([0-9]{4})", text):
        return f"{found[2]}-{int(found[1]):02}"
    if found := re.fullmatch(
        r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})(?:[T ][0-9:.]+(?:Z|[+-][0-9:]+)?)?", text
    ):
        return f"{found[1]}-{int(found[2]):02}-{int(found[3]):02}"
    text = re.sub(r"^([0-9]{4})[.,]0$", r"\1", text)  # a year that a program took for a number
    return re.sub(r"^\[?(?:c|ca|circa)\.? ?([0-9]{4})\]?$", r"c. \1", text)


def read_file(text: str) -> dict[str, str]:
    """Return the file at a path: its name in the item is that of the file."""
    return {"path": re.split(r"[/\\]", text)[-1], "source": text.replace("\\", "/")}


_CONVERT: Mapping[str, Callable[[str], Any]] = {
    **dict.fromkeys(("issued", "submitted", "available", "defended", "embargo"), read_date),
    "degree_level": _choose("levels"),
    "access_right": _choose("access rights"),
    "language": read_language,
    "licence": lambda text: parsers.find_licence(text) or text,
    "doi": lambda text: f"doi:{text}" if re.match(r"10\.[0-9]", text) else text,
    "files": read_file,
}


def _read_field(name: str, path: str, *words: str) -> WorkField:
    """Return the field of a column.

    :param path: the path in a record. A dot at the beginning stands for ``metadata.work``, and an
        asterisk says that a cell may contain several values. The other members of an object may
        follow, as in ``.titles[].value kind=subtitle``.
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
#: The paths of objects and lists of objects that several fields fill.
OBJECTS = frozenset({"metadata.work.container", "metadata.work.degree", "metadata.work.funding"})
#: The fields and the names as they are written, by the folded names.
_BY_NAME = {
    fold(word): (name, word) for name, described in FIELDS.items() for word in described.words
}
#: The language at the end of a name. The name itself is not matched, because that takes quadratic
#: time if it contains many spaces.
_LANGUAGE = re.compile(r"[\[(]([A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{1,8})*)[\])]\s*\Z")


def find_column(name: str) -> Column | None:
    """Return what a column with a name contains; None if the name is unknown.

    A language may follow in brackets, as in ``title[en]`` or ``Resumo (pt-BR)``.
    """
    if known := _BY_NAME.get(fold(name)):
        return Column(known[0])
    language = _LANGUAGE.search(name)
    known = _BY_NAME.get(fold(name[: language.start()])) if language else None
    if language is None or known is None or FIELDS[known[0]].member != "value":
        return None
    return Column(known[0], language[1].replace("_", "-"))


# --- entries -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of a table, or an entry of another file.

    :param place: where the entry is in the file, for messages, such as ``row 7``.
    :param data: the JSON object of a record without identifiers.
    :param key: the name of the entry in the file. The key of the entry is made from it, unless
        ``data`` has a key.
    :param errors: what is wrong with the entry; the fields have the names of the file.
    :param warnings: what was changed or left out in the description, with such fields, too; the
        entry is right nevertheless.
    """

    place: str
    data: dict[str, Any] = field(default_factory=dict)
    key: str = ""
    errors: tuple[FieldError, ...] = ()
    warnings: tuple[FieldError, ...] = ()


class Doubt(NamedTuple):
    """A value that a reader changes or leaves out: what ``convert`` returns, or a reader yields.

    :param value: the value that is read instead; None: the value is left out.
    :param reason: the warning, which the user sees with the place and the name of the field.
    """

    value: Any
    reason: str


#: A value: the name of the field in the file, the field, and the value (a text, or a JSON object
#: such as a name; or a :class:`Doubt`).
Value = tuple[str, Column, Any]


def digest(text: str) -> str:
    """Return a short digest of a text, by which an entry without a name is found again."""
    return sha256(text.encode()).hexdigest()[:16]


def leave_out(reason: str) -> str:
    """Return a warning: what is wrong with a value that is left out."""
    return _("{reason}; it is left out", reason=reason)


def build_entry(place: str, key: str, values: Iterable[Value]) -> Entry:
    """Return the entry with some values.

    :param values: the values in the order of the file; empty ones are ignored.
    """
    data: dict[str, Any] = {}
    errors: list[FieldError] = []
    warnings: list[FieldError] = []
    counts: Counter[str] = Counter()
    orcids: list[str] = []
    for name, column, value in chain.from_iterable(map(_divide, values)):
        described = FIELDS[column.field]
        if isinstance(value, str):
            value = value.strip()
            if described.convert is not None and value:
                try:
                    value = described.convert(value)
                except ValueError as error:
                    errors.append(FieldError(name, error.args[0]))
                    continue
        if isinstance(value, Doubt):
            warnings.append(FieldError(name, value.reason))
            value = value.value
        number = counts[column.field]
        counts[column.field] += 1
        if column.field == "orcid":
            orcids.append(value)
        if not value or column.field == "orcid":
            continue
        _set(data, described.path, number, _complete(value, described, column.lang))
    if any(orcids):
        warnings += _set_orcids(data, orcids)
    work = data.get("metadata", {}).get("work", {})
    pages = work.get("container", {}).get("pages", "")
    if re.fullmatch(r"[0-9]+(?: ?[fp]\.?)?", pages) and [*work["container"]] == ["pages"]:
        # the number of pages of a thesis or a book, which is in no journal
        del work["container"]
        work.setdefault("extent", f"{pages} p." if pages.isdigit() else pages)
    return Entry(place, data, key, tuple(errors), tuple(warnings))


#: Between two ISSNs or ISBNs: a space is only so in front of the beginning of an ISSN or ISBN.
_SEVERAL = re.compile(r"\s*[,;|]\s*|\s+(?=[0-9]{4}-[0-9]{3}[0-9Xx]|97[89])")


def _divide(value: Value) -> Iterator[Value]:
    """Yield the value; of several ISSNs or ISBNs the first one, and the others as related works."""
    name, column, text = value
    parse = {"issn": parsers.parse_issn, "isbn": parsers.parse_isbn}.get(column.field)
    numbers = _SEVERAL.split(text.strip()) if parse and isinstance(text, str) else []
    if parse is None or len(numbers) < 2:
        yield value
        return
    is_first = True
    for text in filter(None, numbers):
        try:
            number = parse("", text)
        except FieldError as error:
            yield name, column, Doubt(None, leave_out(error.reason))
            continue
        other = {"identifier": number, "relation": "IsPublishedIn"}
        if is_first:
            yield name, column, number
        else:  # that of an ISBN is not known: another binding, or the book of a chapter
            yield name, Column("related"), other if column.field == "issn" else number
        is_first = False


def _complete(value: Any, described: WorkField, lang: str | None) -> Any:
    """Return the value with its language and with what the field says, such as the role."""
    extra = {**described.extra, **({} if lang is None else {"lang": lang})}
    if not extra:
        return value
    return {**(value if isinstance(value, dict) else {described.member: value}), **extra}


def _set(data: dict[str, Any], path: str, number: int, value: Any) -> None:
    """Set the value at a path of :class:`WorkField`.

    :param number: the number of the object that contains the value, if the path has ``[n]``.
    """
    *parents, last = path.split(".")
    for parent in parents:
        if parent.endswith("[n]"):
            objects = data.setdefault(parent.removesuffix("[n]"), [])
            objects.extend({} for _ in range(number + 1 - len(objects)))
            data = objects[number]
        else:
            data = data.setdefault(parent, {})
    if last.endswith("[]"):
        data.setdefault(last.removesuffix("[]"), []).append(value)
    else:
        data.setdefault(last, value)


def _set_orcids(data: dict[str, Any], orcids: list[str]) -> Iterator[FieldError]:
    """Set the ORCIDs of the creators, which have the same order."""
    creators = data.get("metadata", {}).get("work", {}).get("creators", [])
    while len(orcids) > len(creators) and not orcids[-1]:
        orcids.pop()
    if len(orcids) != len(creators):
        reason = _(
            "{count} ORCIDs for {number} authors; they are left out: write one for each author, in "
            "the same order",
            **{"count": len(orcids), "number": len(creators)},
        )
        yield FieldError("ORCID", reason)
        return
    for number, (name, orcid) in enumerate(zip(creators, orcids, strict=True)):
        if orcid:
            stated = name if isinstance(name, dict) else {"name": name}
            creators[number] = {**stated, "orcid": orcid}


def name_fields(columns: Iterable[tuple[str, Column]]) -> Mapping[str, str]:
    """Return for the paths of a record the names of the fields in a file."""
    names: dict[str, list[str]] = {}
    for name, column in columns:
        path = re.sub(r"\[n?\]", "", FIELDS[column.field].path)
        names.setdefault(path, []).append(name)
    return {path: "/".join(dict.fromkeys(found)) for path, found in names.items()}


def name_field(path: str | None, names: Mapping[str, str]) -> str | None:
    """Return the name in the file of the field at the path of an error."""
    plain = re.sub(r"\[[0-9]+\]", "", path or "")
    while plain:
        if plain in names:
            return names[plain]
        # the object at a path may be made of several fields
        if plain in OBJECTS:
            inside = [name for one, name in names.items() if one.startswith(f"{plain}.")]
            return "/".join(inside) or path
        plain = plain.rpartition(".")[0]
    return path


@dataclass(frozen=True, slots=True)
class WorksFile:
    """What a reader reads in a file.

    :param entries: the entries.
    :param names: the names of the fields in the file, by the paths of records.
    :param is_strict: whether each wrong value is an error; otherwise :func:`leave_out_wrong` leaves
        out those that are secondary.
    :param delimiter: what separates the cells of a table, in this file and in answers to it.
    :param unknown: the columns of a table whose names are not known.
    """

    entries: Iterable[Entry]
    names: Mapping[str, str] = field(default_factory=dict)
    is_strict: bool = False
    delimiter: str = ","
    unknown: Sequence[str] = ()


def leave_out_wrong(data: dict[str, Any]) -> Iterator[FieldError]:
    """Remove the wrong values of a description that are secondary, and yield what is wrong.

    The title, the date and the identifiers of a work are not secondary, and all that is not in its
    description neither.
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
            reason = error.reason
            if error.field == "metadata.work.container.title":
                reason = _("the title of the journal, book or event is missing")
            yield FieldError(error.field, leave_out(reason))
        if not errors:
            return


def _is_secondary(path: str, is_dated: bool = True) -> bool:
    """Return whether a work can do without the value at a path of its record.

    :param is_dated: whether the work has a date of publication; otherwise a thesis needs that of
        its defence.
    """
    found = re.match(r"metadata\.work\.(\w+)(\.defended)?", path)
    return bool(found and found[1] not in ("titles", "issued") and (is_dated or not found[2]))


def _remove(data: Any, path: list[str]) -> None:
    """Remove the value at a path; if it is missing, the object that should contain it."""
    *parents, parent, last = path
    above = data
    for name in parents:
        above = above[int(name) if isinstance(above, list) else name]
    inside = above[int(parent) if isinstance(above, list) else parent]
    if isinstance(inside, list):
        del inside[int(last)]
    else:
        is_missing = inside.pop(last, None) is None
        if (is_missing or not inside) and len(path) > 3:
            _remove(data, path[:-1])


# --- json lines ----------------------------------------------------------------------------------


def read_json_lines(lines: Iterable[bytes]) -> WorksFile:
    """Return the works of JSON Lines: records without identifiers."""
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
    """Return the works of a table.

    :param lines: the lines of the file with their line ends. They are read twice.
    :param columns: the fields of the columns whose names are not known, by the names of columns.
    :param separator: what separates several values in a cell.
    :param ignored: the names of columns that are not read.
    :param dates: the order of day and month in all columns: "dmy" or "mdy". Otherwise the other
        rows of a column may tell the order.
    :raises FieldError: if the table has no row, or no column with titles.
    """
    try:
        delimiter, rows = _open(iter(lines), columns or {})
        header = [name.strip() for name in next(rows, [])]
    except csv.Error as error:
        raise FieldError("", f"the first row is not CSV: {error}") from error
    found, errors = _find_columns(header, columns or {}, ignored)
    has_title = any(column and column.field == "title" for column in found)
    if not (has_title or errors):
        raise FieldError("", _("the table has no column title; name it with --map title=COLUMN"))
    named = [(name, column) for name, column in zip(header, found, strict=True) if column]

    def read() -> Iterator[Entry]:
        if errors:
            yield Entry(_("row {number}", number=1), errors=tuple(errors))
        if not has_title:
            return
        orders = _find_orders(_number(rows), header, found, dates)
        __, again = _open(iter(lines), columns or {})
        next(again, None)
        yield from _read_rows(_number(again), header, found, separator, orders)

    unknown = [name for name in header if name and find_column(name) is None]
    return WorksFile(read(), name_fields(named), delimiter=delimiter, unknown=unknown)


def _open(lines: Iterator[str], columns: Mapping[str, str]) -> tuple[str, Iterator[list[str]]]:
    """Return the delimiter that gives the most known columns, and the rows of a table."""
    first = next(lines, "").removeprefix("\ufeff")
    if stated := _SEP.fullmatch(first):
        return stated[1], csv.reader(lines, delimiter=stated[1], strict=True)

    def count_known(delimiter: str) -> int:
        names = next(csv.reader([first], delimiter=delimiter), [])
        return sum(name in columns or find_column(name) is not None for name in names)

    best = max(_DELIMITERS, key=count_known)
    return best, csv.reader(chain([first], lines), delimiter=best, strict=True)


#: The rows of a table after the header, with their numbers; an error for a row that is not CSV.
Rows = Iterator[tuple[int, "list[str] | csv.Error"]]


def _number(rows: Iterator[list[str]]) -> Rows:
    for number in count(2):
        try:
            yield number, next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            yield number, error


def _find_orders(
    rows: Rows, header: list[str], columns: list[Column | None], stated: str
) -> dict[str, str]:
    """Return the order of day and month in each column in which a row leaves no doubt."""
    found = defaultdict[str, set[str]](set)
    for __, row in rows:
        if isinstance(row, list):
            for name, column, cell in zip(header, columns, row, strict=False):
                if column is not None and FIELDS[column.field].convert is read_date:
                    found[name].add(stated or find_order(cell))
    return {name: max(orders) for name, orders in found.items() if len(orders - {""}) == 1}


def _find_columns(
    header: list[str], columns: Mapping[str, str], ignored: Collection[str]
) -> tuple[list[Column | None], list[FieldError]]:
    """Return what each column contains (None: it is not read), and the errors of the header."""
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
    close = get_close_matches(fold(name), _BY_NAME, n=1, cutoff=0.6)
    return _(
        "the column is unknown{meant}; say what it contains with --map FIELD=COLUMN, or leave it "
        "out with --ignore COLUMN",
        meant=ask_if_meant(_BY_NAME[close[0]][1] if close else None),
    )


def _read_rows(
    rows: Rows,
    header: list[str],
    columns: list[Column | None],
    separator: str,
    orders: Mapping[str, str],
) -> Iterator[Entry]:
    for number, row in rows:
        place = _("row {number}", number=number)
        if isinstance(row, csv.Error):
            yield Entry(
                place, errors=(FieldError("", _("the row is not CSV: {problem}", problem=row)),)
            )
            continue
        if not any(map(str.strip, row)):
            continue
        if any(map(str.strip, row[len(header) :])):
            reason = _(
                "the row has {count} cells, but the first row has {number}",
                **{"count": len(row), "number": len(header)},
            )
            yield Entry(place, errors=(FieldError("", reason),))
            continue
        # Excel leaves out empty cells at the end of a row, or adds some
        row = [*row, *[""] * (len(header) - len(row))][: len(header)]
        cells = list(zip(header, columns, row, strict=True))
        errors = [
            wrong(name, cell, _DAMAGED)
            for name, column, cell in cells
            if column and _DAMAGE.search(cell) and not _is_secondary(FIELDS[column.field].path)
        ]
        if any(cell.strip() for name, _, cell in cells if not name):
            reason = _("a cell is in a column that has no name in the first row")
            errors.append(FieldError("", reason))
        if errors:
            yield Entry(place, errors=tuple(errors))
            continue
        values = (
            (name, column, _read_text(text, FIELDS[column.field], orders.get(name, "")))
            for name, column, cell in cells
            if column is not None
            for text in (cell.split(separator) if FIELDS[column.field].is_list else [cell])
        )
        yield build_entry(place, digest("\x1f".join(row)), values)


def _read_text(text: str, described: WorkField, order: str) -> str | Doubt:
    """Return a value of a cell; a Doubt if it is not certain what is meant."""
    text = text.strip()
    if _DAMAGE.search(text):
        reason = _("{reason}; they are removed", reason=wrong("", text, _DAMAGED).reason)
        return Doubt(_DAMAGE.sub(" ", text).strip(), reason)
    if order:
        return read_date(text, order)
    if described.member == "name":
        found, name = parsers.ORCID.search(text), parsers.ORCID.sub(" ", text).strip(" ")
        if found and parsers.check_orcid(found) is None:
            reason = _("contains an ORCID whose check digit is wrong")
            return Doubt(name, leave_out(wrong("", text, reason).reason))
        if _DOUBTFUL.search(name):
            reason = _("may not be one name such as Silva, Ana")
            return Doubt(text, wrong("", text, reason).reason)
    return text
