"""The forms of the librarian: what they show, and what they store.

The fields of a description are the columns of a spreadsheet (:data:`.readers.FIELDS`), so the forms
read dates, names and languages as an import does. Each form stores through an operation of the
Archive. A part of a description that has no field stays as it is, and so does a value whose text
remains, with all that belongs to it, such as the affiliations of an author.

A form contains a token: the random number in the session of the user, signed. A form of another
site can't contain it (CSRF). This does not need an extension of the host. If the host has one, such
as Flask-WTF, the forms contain its token, too.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import BytesIO
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from time import time
from typing import Any, NamedTuple, TypeAlias

from flask import Response, request, session
from itsdangerous import BadData, URLSafeTimedSerializer
from werkzeug.datastructures import FileStorage

from flask_ibi_archive.archive.hosts.models import build_prefix, identified_models
from flask_ibi_archive.archive.items import item_pages
from flask_ibi_archive.archive.items.files import STAGING
from flask_ibi_archive.archive.items.import_export import (
    Counts,
    Importer,
    WorksImporter,
    open_source,
    read_works,
)
from flask_ibi_archive.archive.items.item_record import name_file
from flask_ibi_archive.archive.pages import labels
from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records.description import (
    CONTAINED,
    IN_JOURNALS,
    WorkType,
    find_type,
)
from flask_ibi_archive.core.records.readers import (
    FIELDS,
    SEPARATOR,
    Column,
    build_entry,
    find_column,
    name_field,
    name_fields,
    read_date,
)
from flask_ibi_archive.core.records.record import (
    DublinCoreMetadata,
    ItemView,
    Record,
    format_description,
    format_record,
)
from flask_ibi_archive.core.records.values import FieldError, clean
from flask_ibi_archive.core.records.work import read_dublin_core
from flask_ibi_archive.errors import (
    IBIError,
    IdentifierError,
    NotReady,
    RecordError,
    StorageError,
    one_line,
    translatable,
)
from flask_ibi_archive.server.web.requests import current_archive, read_query, request_root
from flask_ibi_archive.server.web.texts import gettext, read_catalogues, translate_reason

#: The name of the hidden field with the token, and the message about a wrong token.
TOKEN = "ibi_token"
EXPIRED = translatable("The form was open too long, or was sent by another site. Send it again.")
#: The key of the random number in the session.
KEY = "ibi_form"
#: The number of seconds for which a form may be open.
MAX_AGE = 12 * 3600


def render(template: str, **values: Any) -> Response:
    """Return a page with the variables that both pages of the librarian have."""
    status = 422 if values.get("errors") else 200
    token = _serializer().dumps(session.setdefault(KEY, secrets.token_urlsafe(16)))
    base = find_base()
    return item_pages.page(template, status, base=base, token_name=TOKEN, token=token, **values)


def find_base() -> str:
    """Return the path of the page, which the host chose."""
    return f"{request_root()}{request.path}"


def has_token() -> bool:
    """Return whether the form has a token of the current user, at most :data:`MAX_AGE` old."""
    try:
        number = _serializer().loads(request.form.get(TOKEN, ""), max_age=MAX_AGE)
    except BadData:
        return False
    return KEY in session and secrets.compare_digest(number, session[KEY])


def _serializer(salt: str = KEY) -> URLSafeTimedSerializer:
    keys: list[Any] = [*current_archive().config.secret_keys]
    return URLSafeTimedSerializer(keys, salt=salt)


#: The errors of a form by field; "" is the whole form.
Errors: TypeAlias = dict[str, list[str]]


def attempt(store: Callable[[], object], names: Mapping[str, str] | None = None) -> Errors:
    """Call a function that stores a form if the form has a token, and return the errors.

    :param names: the names of the fields of the form, by the paths of records.
    """
    if not has_token():
        return {"": [gettext(EXPIRED)]}
    try:
        store()
    except NotReady:
        raise
    except IBIError as error:
        cause = error.__cause__
        if isinstance(cause, FieldError):
            field = name_field(cause.field, names or {}) or ""
            return {field.partition("/")[0]: [translate_reason(cause.reason)]}
        return {"": [translate_reason(error)]}
    return {}


# --- withdrawal ----------------------------------------------------------------------------------


def find_item(text: str, is_edited: bool = False) -> ItemView | Response:
    """Return the item of a form; or the page that says why there is no form."""
    try:
        item = current_archive().get(text)
    except IdentifierError as error:
        return item_pages.no_item_page(error.suggestion)
    if item is None or item.is_service:
        return item_pages.no_item_page(text)
    if item.record.state == State.DELETED:
        return item_pages.message(409, gettext("This item was removed"), item=item)
    if follows_row(item):
        return item_pages.message(
            409,
            gettext("This item belongs to a record of the repository"),
            gettext("Change or withdraw the record in the repository; the item then follows it."),
            item=item,
        )
    if is_edited and item.record.state != State.ORIGINAL:
        return item_pages.message(409, gettext("The Original is in another Archive"), item=item)
    return item


def follows_row(item: ItemView) -> bool:
    """Return whether an item follows a row of the host's own models."""
    key = item.record.key or ""
    return any(key.startswith(build_prefix(mapper)) for mapper in identified_models)


def answer_withdrawal(item: ItemView) -> Response:
    """Show the form that withdraws an item, and withdraw the item if the form is sent."""
    names = ("reason", "successor", "citation", "discard_description")
    values = {name: request.form.get(name, "").strip() for name in names}
    errors: Errors = {}
    if request.method == "POST":
        errors = _withdraw(item, values)
        if not errors:
            return item_pages.redirect_to(f"{find_base()}?withdrawn={item.ibi}", 303)
    return render("admin_withdraw", item=item, values=values, errors=errors)


def _withdraw(item: ItemView, values: dict[str, str]) -> Errors:
    """Withdraw an item, and return the errors."""
    if has_token() and not values["reason"]:
        return {"reason": [gettext("Fill in this field.")]}
    archive = current_archive().without_session()
    return attempt(
        lambda: archive.delete(
            item.ibi,
            values["reason"],
            citation=values["citation"] or None,
            successor=values["successor"] or None,
            discard_description=bool(values["discard_description"]),
        )
    )


# --- descriptions --------------------------------------------------------------------------------


#: The fields that each kind of works needs first; see :func:`find_first_fields`.
FIRST_FIELDS = {
    "thesis": "title subtitle creators institution programme degree defended advisors co_advisors "
    "committee place extent",
    "article": "title creators journal volume issue pages issued issn doi",
    "part": "title creators journal editors pages place publisher issued isbn doi",
    "book": "title subtitle creators editors place publisher issued version isbn extent",
    "report": "title subtitle creators place publisher issued report_number extent",
    "other": "title creators publisher issued version licence doi",
}
#: The fields that all kinds of works need then, and the columns for which there is no text field.
THEN, UNSHOWN = "abstract subjects language", ("type", "files", "key", "orcid")
BOOKS = (WorkType.BOOK, WorkType.PROCEEDINGS, WorkType.COLLECTION)
REPORTS = (WorkType.REPORT, WorkType.PATENT, WorkType.STANDARD)
#: The fields with long texts, and those that the form offers in the languages of the pages.
LONG, TRANSLATED = ("abstract", "notes", "rights"), ("translated_title", "abstract", "subjects")
#: The members that catalogues also write as one text, such as ``São Paulo: USP``.
IMPRINT = ("place", "publisher")
WORK = "metadata.work."
CHANGED = translatable("The item was changed in the meantime. Open the form again.")
#: The values of an item by the names of fields: the texts, and the values in the JSON of a record.
Values = dict[str, list[tuple[str, Any]]]


def find_first_fields(type: WorkType) -> list[str]:
    """Return the fields that a type of work needs first."""
    kinds = {
        "thesis": type.is_thesis,
        "article": type in IN_JOURNALS or type is WorkType.PREPRINT,
        "part": type in CONTAINED,
        "book": type in BOOKS,
        "report": type in REPORTS,
        "other": True,
    }
    kind = next(kind for kind, is_kind in kinds.items() if is_kind)
    return f"{FIRST_FIELDS[kind]} {THEN}".split()


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


def make_field(name: str, text: str = "") -> FormField | None:
    """Return the field with a name; None if there is no such field.

    If an item has several values of a column that is not a list, the name ends with ``~`` and a
    number.
    """
    column = find_column(name.partition("~")[0])
    if column is None or column.field in UNSHOWN:
        return None
    is_list = FIELDS[column.field].is_list
    rows = max(2, text.count("\n") + 1) if is_list else 6 if column.field in LONG else 0
    return FormField(name, column, clean(text.replace("\r\n", "\n")), is_list, rows)


def read_data(record: Record) -> dict[str, Any]:
    """Return the JSON of a record, whose metadata are always a description."""
    data, metadata = format_record(record), record.metadata
    if isinstance(metadata, DublinCoreMetadata) and metadata.work is None:
        data["metadata"] = {"work": format_description(read_dublin_core(metadata.elements))}
    return data


def list_values(data: Mapping[str, Any]) -> Values:
    """Return the values of a record for which there are fields."""
    found: Values = {}
    for field, described in FIELDS.items():
        for member in _find_members(data, described.path):
            if field in UNSHOWN or not _belongs_to(member, field):
                continue
            text, name = str(member or ""), field
            if isinstance(member, dict):
                text = str(member[described.member or "name"])
                text += f" ({member['orcid']})" if "orcid" in member else ""
                name += f"({member['lang']})" if "lang" in member else ""
            if described.is_list:
                text = one_line(text)
            elif name in found:
                name += f"~{len(found)}"
            found.setdefault(name, []).append((text, member))
    town, colon, publisher = show(found.get("publisher", [])).partition(": ")
    if colon and "place" not in found:
        found |= {"place": [(town, town)], "publisher": [(publisher, publisher)]}
    return found


def _find_members(data: Any, path: str) -> list[Any]:
    """Return the values at a path of :class:`.WorkField`; None only if their positions count."""
    members = [data]
    for part in path.split("."):
        name, bracket, _ = part.partition("[")
        members = [each.get(name) if isinstance(each, dict) else None for each in members]
        if bracket:
            members = [member for listed in members for member in listed or ()]
    return [member for member in members if member is not None or "[n]" in path]


def _belongs_to(member: Any, field: str) -> bool:
    """Return whether a value at the path of a field is a value of this field."""
    path, extra = FIELDS[field].path, FIELDS[field].extra
    if path == "same_as[]":
        return (field == "doi") == str(member).startswith("doi:")
    names = {name for other in FIELDS.values() if other.path == path for name in other.extra}
    stated = member if isinstance(member, dict) else {}
    return {name: stated[name] for name in names if name in stated} == extra


def read_changes(
    data: Mapping[str, Any], present: Values, fields: Iterable[FormField]
) -> tuple[dict[str, Any], Errors]:
    """Return the fields of an ItemRecord that a form changes, and the errors.

    :param data: the JSON of the present record; ``{}`` for a new item.
    :param present: the result of :func:`list_values`.
    """

    def list_entries() -> Iterator[tuple[str, Column, Any]]:
        for field in fields:
            known: dict[str, Any] = dict(present.get(field.name, []))
            is_date = FIELDS[field.column.field].convert is read_date
            for line in field.text.split("\n") if field.is_list else [field.text]:
                text = read_date(line.strip(), "dmy") if is_date else line.strip()
                yield field.name, field.column, known.get(text) or text

    entry = build_entry("", "", list_entries())
    found = (*entry.errors, *entry.warnings)
    errors = {error.field: [translate_reason(error.reason)] for error in found}
    new, old = (
        {**one, **one.get("metadata", {}).get("work", {})} for one in (entry.data, dict(data))
    )
    changes: dict[str, Any] = {}
    for field in fields:
        if field.text.strip() == show(present.get(field.name, ())).strip():
            continue
        key = FIELDS[field.column.field].path.removeprefix(WORK).partition("[")[0].partition(".")[0]
        for name in IMPRINT if key in IMPRINT else (key,):
            changes[name] = _merge(name, old.get(name), new.get(name))
    return changes, errors


def show(values: Iterable[tuple[str, Any]]) -> str:
    """Return the text of a field with some values."""
    return "\n".join(text for text, _ in values)


def _merge(name: str, old: Any, new: Any) -> Any:
    """Return the new value of a member, with the parts of the old one that have no fields."""
    if name == "funding":
        grants = {(one["funder"], one.get("number")): one for one in old or ()}
        return [grants.get((one.get("funder"), one.get("number")), one) for one in new or ()]
    if isinstance(old, list):
        fields = [field for field in FIELDS if FIELDS[field].path.endswith(f"{name}[]")]
        others = [one for one in old if not any(_belongs_to(one, field) for field in fields)]
        return [*(new or ()), *others]
    if isinstance(old, dict):
        paths = [described.path for described in FIELDS.values()]
        rest = {key: one for key, one in old.items() if f"{WORK}{name}.{key}" not in paths}
        return {**rest, **(new or {})} or None
    return new


def answer_description(item: ItemView | None) -> Response:
    """Show the form of a description, and store a new item or the changes if it is sent."""
    query, form, archive = read_query(), request.form, current_archive().without_session()
    data = {} if item is None else read_data(item.record)
    present, errors = list_values(data), Errors()
    present_type = find_type(str(data.get("metadata", {}).get("work", {}).get("type", "")))
    wanted = form.get("type") or query.get("new", "")
    type = (find_type(wanted) if wanted else present_type) or WorkType.OTHER
    texts = {name: show(values) for name, values in present.items()} | dict(form)
    fields = [field for name, text in texts.items() if (field := make_field(name, text))]
    if request.method == "POST" and "show" not in form:
        names = name_fields((field.name, field.column) for field in fields)
        changes, errors = read_changes(data, present, fields)
        if type is not (present_type or WorkType.OTHER):
            changes["type"] = None if type is WorkType.OTHER else type.value
        titles = changes.get("titles")
        if not (item or titles):
            errors["title"] = [gettext("Fill in this field.")]
        if item and form.get("timestamp") != _format_version(item):
            errors = {"": [gettext(CHANGED)]}
        if not errors and item is not None:
            is_plain = all(isinstance(title, str) for title in titles or ())
            if titles and is_plain and "work" not in format_record(item.record).get("metadata", {}):
                changes["title"] = changes.pop("titles")  # Dublin Core remains Dublin Core
            errors = attempt(lambda: archive.edit(item.ibi, **changes), names)
        elif not errors:
            files = list_uploads("files")
            draft = query.get("draft") or None

            def deposit() -> None:
                texts["ibi"] = archive.deposit(files=files, reserved=draft, **changes).ibi

            errors = attempt(deposit, names)
        if not errors:
            saved = item.ibi if item else texts["ibi"]
            return item_pages.redirect_to(f"{find_base()}?saved={saved}", 303)
    return render(
        "admin_edit",
        item=item,
        groups=_group(type, fields),
        type=type,
        labels=labels,
        version=_format_version(item),
        draft=query.get("draft", ""),
        errors=errors,
    )


def _format_version(item: ItemView | None) -> str:
    """Return the timestamp of the item, which tells whether it changes while a form is open."""
    timestamp = None if item is None else item.record.timestamp
    return "" if timestamp is None else format_timestamp(timestamp)


def _group(type: WorkType, fields: Iterable[FormField]) -> list[list[FormField]]:
    """Return the fields that the type needs first, the others, and those for translations."""
    stated: dict[str, list[FormField]] = {}
    for field in fields:
        if field.text:
            stated.setdefault(field.column.field, []).append(field)
    first = find_first_fields(type)
    others = [name for name in FIELDS if name not in first]
    translated = [f"{name}({tag})" for tag in read_catalogues() for name in TRANSLATED]
    shown = {field.name for field in fields if field.text}
    made = [make_field(name) for name in (*FIELDS, *translated) if name not in shown]
    empty = {field.name: [field] for field in made if field}
    return [
        *(
            [one for name in names for one in stated.get(name) or empty.get(name, [])]
            for names in (first, others)
        ),
        [one for name in translated for one in empty.get(name, [])],
    ]


# --- files ---------------------------------------------------------------------------------------


def list_uploads(name: str) -> list[FileStorage]:
    """Return the files that the user has chosen in a field of the form."""
    return [file for file in request.files.getlist(name) if file.filename]


def answer_files(item: ItemView) -> Response:
    """Show the form of the files of an item, and store the files if it is sent.

    An added file replaces the file with the same name.
    """
    archive, record, errors = current_archive().without_session(), item.record, Errors()
    paths = [file.path for file in record.files]
    removed = request.form.getlist("remove")
    target = request.form.get("target", record.target_path)

    def store() -> None:
        uploads = list_uploads("files")
        added = [name_file(*numbered)[0] for numbered in enumerate(uploads)]
        replaced = [path for path in paths if path in (*added, *removed)]
        left = {*added, *(path for path in paths if path not in replaced)}
        changes: dict[str, Any] = {"target_file": target} if target in left else {}
        archive.edit(item.ibi, add_files=uploads, remove_files=replaced, **changes)

    if request.method == "POST":
        errors = attempt(store)
        if not errors:
            return item_pages.redirect_to(f"{find_base()}?saved={item.ibi}", 303)
    values = {"removed": removed, "target": target}
    return render("admin_files", item=item, errors=errors, **values)


# --- spreadsheets --------------------------------------------------------------------------------


#: The beginning of the names of folders with uploads that wait for the second button.
UPLOADS = f"{STAGING}upload-"


class Report(NamedTuple):
    """What a check of a spreadsheet, or its import, says.

    :param token: the signed name of the folder with the upload; "" if it can't be imported.
    """

    name: str
    counts: Counts
    errors: list[RecordError]
    warnings: list[RecordError]
    token: str = ""


def answer_import() -> Response:
    """Show the form for a spreadsheet, check an upload, and import it after a second button.

    Between both requests, the upload is in a folder, whose signed name is in the form. It is
    deleted after the import, and if it is wrong or old.
    """
    form, errors, report = request.form, Errors(), None
    if request.method == "POST":
        folder, name = _open_upload(form["upload"]) if "upload" in form else (None, "")
        ignored = [line.strip() for line in form.get("ignored", "").split("\n") if line.strip()]
        is_update, is_import, is_kept = "update" in form, "upload" in form, False

        def read() -> None:
            nonlocal folder, name, report, is_kept
            if not is_import:
                folder, name = _store_upload()
            if folder is None:
                reason = EXPIRED if is_import else translatable("Choose a file.")
                raise StorageError(gettext(reason))
            report = _import(folder, name, ignored, is_update, not is_import)
            is_kept = not (is_import or report.errors)
            if is_kept:
                token = _serializer(UPLOADS).dumps([session.get(KEY), folder.name, name])
                report = report._replace(token=str(token))

        try:
            errors = attempt(read)
        finally:
            if folder is not None and not is_kept:
                rmtree(folder, ignore_errors=True)
        if is_import and report is not None and not report.errors:
            counts = report.counts
            return item_pages.redirect_to(f"{find_base()}?imported={counts.added}", 303)
    return render("admin_import", report=report, errors=errors, values=form)


def _store_upload() -> tuple[Path | None, str]:
    """Store the uploads of a form in a new folder.

    :returns: the folder, and the name of the spreadsheet; None if there is none.
    :raises StorageError: if the uploads can't be stored.
    """
    uploads, store = list_uploads("table"), current_archive().files_folder
    if not uploads:
        return None, ""
    store.create()
    for path in store.find_stale_stagings(time() - MAX_AGE):
        if path.name.startswith(UPLOADS):
            rmtree(path, ignore_errors=True)
    with store.explain_errors("written"):
        folder = Path(mkdtemp(prefix=UPLOADS, dir=store.folder))
        for upload in (*list_uploads("files"), *uploads[:1]):
            name, _ = name_file(0, upload)
            upload.save(folder / name)
    return folder, name


def _open_upload(token: str) -> tuple[Path | None, str]:
    """Return the folder and the name of the spreadsheet of an upload of the same user."""
    try:
        user, folder, name = _serializer(UPLOADS).loads(token, max_age=MAX_AGE)
    except BadData:
        return None, ""
    path = current_archive().files_folder.folder / folder
    is_own = user == session.get(KEY) and path.is_dir()
    return (path if is_own else None), name


def _import(folder: Path, name: str, ignored: list[str], is_update: bool, is_check: bool) -> Report:
    report = Report(name, Counts(), [], [])
    context = current_archive().without_session().context
    with open_source(str(folder / name), BytesIO, folder) as opened:
        source = dataclasses.replace(opened, name=name)
        importer = Importer(
            context,
            on_conflict="update" if is_update else "skip",
            dry_run=is_check,
            on_error=report.errors.append,
        )
        works = read_works(source, {}, SEPARATOR, ignored, "dmy")
        counts = WorksImporter(importer, None, report.warnings.append).run(source, works, name)
    return report._replace(counts=counts)
