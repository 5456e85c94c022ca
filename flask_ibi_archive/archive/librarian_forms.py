"""The forms of the librarian: what they show, and what they store.

The fields of a description are the columns of a spreadsheet (:data:`.readers.FIELDS`), so the forms
read dates, names and languages as an import does. Each form stores through an operation of the
Archive. What has no field in the form stays as it is, and so does a value whose text the librarian
does not change. If a name does not change, all that belongs to the person stays, such as
affiliations.

A form contains a token: the random number in the session of the user. A form of another site can't
contain it (CSRF). This does not need an extension of the host. If the host has one, such as
Flask-WTF, the forms contain its token, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from io import BytesIO
from pathlib import Path
from secrets import compare_digest, token_urlsafe
from shutil import rmtree
from tempfile import mkdtemp
from time import time
from typing import Any, NamedTuple, TypeAlias

from flask import Response, request, session
from werkzeug.datastructures import FileStorage

from flask_ibi_archive.archive.hosts.models import build_prefix, identified_models
from flask_ibi_archive.archive.items import import_export, item_pages
from flask_ibi_archive.archive.items.files import STAGING
from flask_ibi_archive.archive.items.item_record import name_file
from flask_ibi_archive.archive.pages import labels
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records import readers
from flask_ibi_archive.core.records.description import WorkType, find_type, parse_name
from flask_ibi_archive.core.records.readers import FIELDS, Column, find_column
from flask_ibi_archive.core.records.record import ItemView, format_description, format_record
from flask_ibi_archive.core.records.values import FieldError, clean, fold
from flask_ibi_archive.core.records.work import read_dublin_core
from flask_ibi_archive.errors import IBIError, NotReady, StorageError, one_line
from flask_ibi_archive.errors import translatable as _
from flask_ibi_archive.server.web.requests import current_archive, read_query, request_root
from flask_ibi_archive.server.web.texts import gettext, read_catalogues, translate_reason

#: The name of the hidden field with the token, and the message about a wrong token.
TOKEN = "ibi_token"
EXPIRED = _("The form was open too long, or was sent by another site. Send it again.")
#: The keys in the session: of the token, and of the upload that waits for the second button.
KEY, UPLOAD = "ibi_form", "ibi_upload"


def render(template: str, **values: Any) -> Response:
    """Return a page made from a template and the variables that all pages of the librarian need."""
    values |= {"token": session.setdefault(KEY, token_urlsafe(16)), "token_name": TOKEN}
    status = 422 if values.get("errors") else 200
    return item_pages.page(template, status, base=find_base(), **values)


def find_base() -> str:
    """Return the path at which the host shows the page of the librarian."""
    return f"{request_root()}{request.path}"


def go_to(target: str) -> Response:
    """Redirect to the page of the librarian.

    :param target: a query that says what was done, or ``#`` and a part of the page.
    """
    return item_pages.redirect_to(f"{find_base()}{target}", 303)


#: The errors of a form by field; "" is the whole form.
Errors: TypeAlias = dict[str, list[str]]


def attempt(store: Callable[[], object], names: Mapping[str, str] | None = None) -> Errors:
    """Check the token of a sent form, store the form, and return the errors by field.

    :param store: stores the form.
    :param names: the names of the fields of the form, by the paths of records.
    :returns: an empty dictionary if the form is stored. The key "" is for errors without a field.
    """
    token = request.form.get(TOKEN, "")
    if KEY not in session or not compare_digest(token.encode(), session[KEY].encode()):
        return {"": [gettext(EXPIRED)]}
    try:
        store()
    except NotReady:
        raise
    except IBIError as error:
        cause = error.__cause__
        if isinstance(cause, FieldError):
            field = readers.name_field(cause.field, names or {}) or ""
            return {field.partition("/")[0]: [translate_reason(cause.reason)]}
        return {"": [translate_reason(error)]}
    return {}


# --- withdrawal ----------------------------------------------------------------------------------


def answer_item(answer: Callable[[ItemView], Response], ibi: str, is_edited: bool = True) -> Any:
    """Answer a request for a form of an item with a function, if the item may have this form.

    Otherwise return a page that says why there is no form.

    :param is_edited: whether the form is only for Originals.
    """

    def check_and_answer(item: ItemView) -> Response:
        if item.is_service:
            return item_pages.no_item_page(ibi)
        if follows_row(item):
            return item_pages.message(
                409,
                gettext("This item belongs to a record of the repository"),
                gettext(
                    "Change or withdraw the record in the repository; the item then follows it."
                ),
                item=item,
            )
        if is_edited and item.record.state != State.ORIGINAL:
            return item_pages.message(409, gettext("The Original is in another Archive"), item=item)
        return answer(item)

    return item_pages.with_item(check_and_answer)(ibi=ibi)


def follows_row(item: ItemView) -> bool:
    """Return whether an item belongs to a row of the host, which determines its description."""
    key = item.record.key or ""
    return any(key.startswith(build_prefix(mapper)) for mapper in identified_models)


def answer_withdrawal(item: ItemView) -> Response:
    """Show the form that withdraws an item. If the form was sent, withdraw the item."""
    names = ("reason", "successor", "citation", "discard_description")
    values = {name: request.form.get(name, "").strip() for name in names}
    archive, errors = current_archive().without_session(), Errors()

    def withdraw() -> None:
        facts = {name: values[name] or None for name in ("successor", "citation")}
        is_discarded = bool(values["discard_description"])
        archive.delete(item.ibi, values["reason"], discard_description=is_discarded, **facts)

    if request.method == "POST":
        missing: Errors = {"reason": [gettext("Fill in this field.")]}
        errors = attempt(withdraw) if values["reason"] else missing
        if not errors:
            return go_to(f"?withdrawn={item.ibi}")
    return render("admin_withdraw", item=item, values=values, errors=errors)


# --- descriptions --------------------------------------------------------------------------------


#: The columns for which there is no text field.
UNSHOWN = ("type", "files", "key", "orcid")
#: The fields with long texts, and those that the form offers in the languages of the pages.
LONG, TRANSLATED = ("abstract", "notes", "rights"), ("translated_title", "abstract", "subjects")
CHANGED = _("The item was changed in the meantime. Open the form again.")


class FormField(NamedTuple):
    """A text field of a form: a column as in a spreadsheet, such as ``abstract(en)``.

    :param is_list: whether each line of the text is a value.
    :param rows: the number of lines of the control; 0: it is no text area.
    """

    name: str
    column: Column
    text: str
    is_list: bool
    rows: int

    @property
    def member(self) -> str:
        """The name of the member, in the JSON of a record or a description, that has the values."""
        path = FIELDS[self.column.field].path.removeprefix("metadata.work.")
        return path.partition("[")[0].partition(".")[0]


class Value(NamedTuple):
    """A value of an item for which a form has a field.

    :param text: the value as the form shows it.
    :param value: the value in the JSON of the record.
    :param remove: removes the value from this JSON.
    """

    text: str
    value: Any
    remove: Callable[[], object]


#: The values of an item by the names of the fields of a form.
Values: TypeAlias = defaultdict[str, list[Value]]


def make_field(name: str, text: str = "") -> FormField | None:
    """Return the form field with a name, such as ``abstract(en)``; None for an unknown name.

    A field of a column that is not a list contains one value. Each further value of the column has
    a field of its own, whose name ends with ``~`` and a number.
    """
    column = find_column(name.partition("~")[0])
    if column is None or column.field in UNSHOWN:
        return None
    is_list = FIELDS[column.field].is_list
    rows = max(2, text.count("\n") + 1) if is_list else 6 if column.field in LONG else 0
    return FormField(name, column, clean(text.replace("\r\n", "\n")), is_list, rows)


def read_data(item: ItemView) -> dict[str, Any]:
    """Return the record of an item as JSON, with its metadata as a description of a work."""
    data = format_record(item.record)
    if "dc" in data.get("metadata", {}):
        data["metadata"] = {"work": format_description(read_dublin_core(item.dublin_core))}
    return data


def list_values(data: dict[str, Any]) -> Values:
    """Return the values in the JSON of a record that a form shows, by the names of form fields."""
    found: Values = defaultdict(list)
    for field, described in FIELDS.items():
        values = [] if field in UNSHOWN else _find_values(data, described.path)
        for value, remove in values:
            if not _belongs_to(value, field):
                continue
            text, name = str(value or ""), field
            if isinstance(value, dict):
                text = str(value[described.member or "name"])
                text += f" ({value['orcid']})" if "orcid" in value else ""
                name += f"({value['lang']})" if "lang" in value else ""
            if described.is_list:
                text = one_line(text)
            elif name in found:
                name += f"~{len(found)}"
            found[name].append(Value(text, value, remove))
    return found


def _find_values(data: Any, path: str) -> Iterator[tuple[Any, Callable[[], object]]]:
    """Yield the values at a path of :class:`.WorkField`, each with a function that removes it.

    A value may be None, to keep the positions of the values after it.
    """
    name, _, rest = path.partition(".")
    key, is_list, _ = name.partition("[")
    inside = data.get(key)
    if is_list:
        for each in inside or ():
            # the values of the fields of a path with [n] are removed together
            yield (each.get(rest), inside.clear) if rest else (each, partial(inside.remove, each))
    elif rest:
        yield from _find_values(inside or {}, rest)
    elif inside is not None:
        yield inside, partial(data.pop, key)


def _belongs_to(value: Any, field: str) -> bool:
    """Return whether a field shows a value, if several fields have the same path.

    For example, the field "doi" shows only those identifiers that are DOIs.
    """
    path, extra = FIELDS[field].path, FIELDS[field].extra
    if path == "same_as[]":
        return (field == "doi") == str(value).startswith("doi:")
    names = {name for other in FIELDS.values() if other.path == path for name in other.extra}
    stated = value if isinstance(value, dict) else {}
    return {name: stated[name] for name in names if name in stated} == extra


def read_changes(
    data: dict[str, Any], present: Values, fields: Iterable[FormField]
) -> tuple[dict[str, Any], Errors]:
    """Compare a sent form with a record; return the fields of an ItemRecord to change, and errors.

    :param data: the JSON of the stored record. This function removes the changed values from it.
    :param present: the result of :func:`list_values`.
    :param fields: the fields of the sent form.
    """

    def read(field: FormField) -> Iterator[readers.Value]:
        known, described = dict(one[:2] for one in present[field.name]), FIELDS[field.column.field]
        is_date, is_name = described.convert is readers.read_date, described.member == "name"
        for line in map(str.strip, field.text.split("\n") if field.is_list else [field.text]):
            text = readers.read_date(line, "dmy") if is_date else line
            other = _keep_person(line, known.values()) if is_name else text
            yield readers.Value(field.name, field.column, known.get(text) or other)

    work = data.get("metadata", {}).get("work", {})
    grants = {(one["funder"], one.get("number")): one for one in work.get("funding", ())}
    entry = readers.build_entry("", "", [value for field in fields for value in read(field)])
    errors = {one.field: [translate_reason(one.reason)] for one in (*entry.errors, *entry.warnings)}
    changed = {one.member for one in fields if one.text.strip() != show(present[one.name])}
    for field in fields:
        for value in present[field.name] if field.member in changed else ():
            value.remove()
    old, new = {**data, **work}, {**entry.data, **entry.data.get("metadata", {}).get("work", {})}
    changes = {name: _merge(old.get(name), new.get(name)) for name in changed}
    if "funding" in changes:
        named = [((one.get("funder"), one.get("number")), one) for one in changes["funding"] or ()]
        changes["funding"] = [grants.get(name, one) for name, one in named]
    return changes, errors


def show(values: Iterable[Value]) -> str:
    """Return the text of a form field that shows some values."""
    return "\n".join(value.text for value in values).strip()


def _keep_person(line: str, present: Iterable[Any]) -> Any:
    """Return the person with a name from a form, with what is stored about this person.

    Persons are the same if their ORCIDs are equal, or if only one name begins as the other does, as
    ``Silva, A.`` and ``Silva, Ana``. The ORCID is always that of the form.

    :param line: the name, perhaps with an ORCID. It is returned if nothing is stored about the
        person.
    :param present: the stored persons.
    """

    def is_same(old: Any) -> bool:
        names = sorted([fold(name.inverted), fold(parse_name(old["name"]).inverted)], key=len)
        has_orcid = name.orcid is not None and name.orcid == old.get("orcid")
        return has_orcid or (names[0] != "" and names[1].startswith(names[0]))

    name = parse_name(line)
    same = [old for old in present if isinstance(old, dict) and is_same(old)]
    if len(same) != 1:
        return line
    return {**{key: value for key, value in same[0].items() if key != "orcid"}, "name": line}


def _merge(old: Any, new: Any) -> Any:
    """Add to the new value of a member those parts of the old value that no form field shows."""
    if isinstance(old, list):
        return [*(new or ()), *old]
    return {**old, **(new or {})} if isinstance(old, dict) else new


def answer_description(item: ItemView | None) -> Response:
    """Show the form of a description. If it was sent, store the changes or a new item.

    :param item: the item; None for a new item.
    """
    query, form, archive = read_query(), request.form, current_archive().without_session()
    data = {} if item is None else read_data(item)
    present, errors, version = list_values(data), Errors(), str(item and item.record.timestamp)
    present_type = find_type(str(data.get("metadata", {}).get("work", {}).get("type", "")))
    wanted = form.get("type") or query.get("new", "")
    type = (find_type(wanted) if wanted else present_type) or WorkType.OTHER
    texts = {name: show(values) for name, values in present.items()} | dict(form)
    fields = [field for name, text in texts.items() if (field := make_field(name, text))]
    if request.method == "POST" and "show" not in form:
        names = readers.name_fields((field.name, field.column) for field in fields)
        changes, errors = read_changes(data, present, fields)
        if type is not (present_type or WorkType.OTHER):
            changes["type"] = None if type is WorkType.OTHER else type.value
        titles = changes.get("titles")
        if not (item or titles):
            errors["title"] = [gettext("Fill in this field.")]
        if form.get("timestamp") != version:
            errors = {"": [gettext(CHANGED)]}
        is_work = item is None or "work" in format_record(item.record).get("metadata", {})
        if titles and not is_work and all(isinstance(title, str) for title in titles):
            changes["title"] = changes.pop("titles")  # Dublin Core remains Dublin Core
        saved = "" if item is None else item.ibi

        def store() -> None:
            nonlocal saved
            if item is None:
                files, draft = list_uploads("files"), query.get("draft") or None
                saved = archive.deposit(files=files, reserved=draft, **changes).ibi
            else:
                archive.edit(item.ibi, **changes)

        errors = errors or attempt(store, names)
        if not errors:
            return go_to(f"?saved={saved}")
    shown = {"item": item, "type": type, "version": version, "draft": query.get("draft", "")}
    return render("admin_edit", **shown, fields=_add_fields(fields), labels=labels, errors=errors)


def _add_fields(fields: Iterable[FormField]) -> list[FormField]:
    """Return the fields that have texts, and an empty field for each column that has none."""
    stated = [field for field in fields if field.text]
    named = {name for one in stated for name in (one.column.field, one.name)}
    translated = [f"{name}({tag})" for tag in read_catalogues() for name in TRANSLATED]
    others = [name for name in (*FIELDS, *translated) if name not in named]
    return [*stated, *filter(None, map(make_field, others))]


# --- files ---------------------------------------------------------------------------------------


def list_uploads(name: str) -> list[FileStorage]:
    """Return the files that the user has chosen in a field of the form; empty if there are none."""
    return [file for file in request.files.getlist(name) if file.filename]


def answer_files(item: ItemView) -> Response:
    """Show the form of the files of an item. If the form was sent, store the files.

    An added file replaces the file with the same name.
    """
    archive, record, errors = current_archive().without_session(), item.record, Errors()
    removed = request.form.getlist("remove")
    target = request.form.get("target", record.target_path)

    def store() -> None:
        uploads, paths = list_uploads("files"), [file.path for file in record.files]
        added = [name_file(*numbered)[0] for numbered in enumerate(uploads)]
        replaced = [path for path in paths if path in (*added, *removed)]
        left = {*added, *(path for path in paths if path not in replaced)}
        changes: dict[str, Any] = {"target_file": target} if target in left else {}
        archive.edit(item.ibi, add_files=uploads, remove_files=replaced, **changes)

    if request.method == "POST":
        errors = attempt(store)
        if not errors:
            return go_to(f"?saved={item.ibi}")
    return render("admin_files", item=item, errors=errors, removed=removed, target=target)


# --- spreadsheets --------------------------------------------------------------------------------


#: The beginning of the names of folders with uploads, and the number of seconds that they remain.
UPLOADS, MAX_AGE = f"{STAGING}upload-", 12 * 3600


def answer_import() -> Response:
    """Show the form for a spreadsheet. Check an upload; a second button imports it.

    Between the two requests, the upload is in a folder, whose name is in the form and in the
    session. It is deleted after the import, and if it is old.
    """
    form, errors, report = request.form, Errors(), dict[str, Any]()
    chosen = dict(zip(form.getlist("column"), form.getlist("field"), strict=False))
    columns = {column: field for column, field in chosen.items() if field}
    ignored = [column for column, field in chosen.items() if not field]

    def read() -> None:
        table = _find_upload() if "upload" in form else _store_upload()
        wrong, doubtful = list[Any](), list[Any]()
        with import_export.open_source(str(table), BytesIO, table.parent) as opened:
            source = replace(opened, name=table.name)
            works = import_export.read_works(source, columns, readers.SEPARATOR, ignored, "dmy")
            importer = import_export.Importer(
                current_archive().without_session().context,
                on_conflict="update" if "update" in form else "skip",
                dry_run="import" not in form,
                on_error=wrong.append,
            )
            importing = import_export.WorksImporter(importer, None, doubtful.append)
            counts = importing.run(source, works, table.name)
        if "import" in form and not wrong:
            rmtree(table.parent)
        report.update(name=table.name, upload=session[UPLOAD], counts=counts)
        report.update(errors=wrong, warnings=doubtful, unknown=works.unknown)

    if request.method == "POST":
        errors = attempt(read)
        if "import" in form and report and not report["errors"]:
            return go_to(f"?imported={report['counts'].added}")
    values = {"columns": columns, "fields": FIELDS, "update": form.get("update")}
    return render("admin_import", report=report, errors=errors, **values)


def _store_upload() -> Path:
    """Store the uploads of a form in a new folder, and return the path of the spreadsheet.

    :raises StorageError: if there is none, or if the uploads can't be stored.
    """
    uploads, store = list_uploads("table"), current_archive().files_folder
    if not uploads:
        raise StorageError(_("Choose a file."))
    store.create()
    for path in store.find_stale_stagings(time() - MAX_AGE):
        if path.name.startswith(UPLOADS):
            rmtree(path, ignore_errors=True)
    with store.explain_errors("written"):
        path = Path(mkdtemp(prefix=UPLOADS, dir=store.folder))
        for upload in (*list_uploads("files"), *uploads[:1]):
            name = name_file(0, upload)[0]
            upload.save(path / name)
    session[UPLOAD] = f"{path.name}/{name}"
    return path / name


def _find_upload() -> Path:
    """Return the path of the spreadsheet that the same user has uploaded before."""
    path: Path = current_archive().files_folder.folder / session.get(UPLOAD, "")
    if request.form["upload"] != session.get(UPLOAD) or not path.is_file():
        raise StorageError(EXPIRED)
    return path
