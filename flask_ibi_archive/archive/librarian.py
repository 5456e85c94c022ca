"""The page of the librarian, which the host shows behind its login (``ibi.admin_page()``).

The page shows what needs attention, and a form to withdraw items. It shows stored results only, and
sends no requests to other servers. The number of SQL statements does not depend on the number of
items. Each list shows the first :data:`SHOWN` entries and the number of all of them.

The module is above the subjects of the Archive, because the page shows results of several of them.

A form contains a token: the random number in the session of the user, signed. A form of another
site can't contain it (CSRF). This does not need an extension of the host. If the host has one, such
as Flask-WTF, the forms contain its token, too.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from flask import Response, request, session
from itsdangerous import BadData, URLSafeTimedSerializer
from sqlalchemy import Connection, Row, case, func, select

from flask_ibi_archive.archive.care import FileCheck
from flask_ibi_archive.archive.hosts.models import build_prefix, identified_models
from flask_ibi_archive.archive.items import item_pages, ownership, read
from flask_ibi_archive.archive.items.tables import AccessCount, Item, ItemIdentifier
from flask_ibi_archive.archive.joining import registration
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records.record import ItemView
from flask_ibi_archive.core.records.values import FieldError
from flask_ibi_archive.errors import ConfigError, IBIError, IdentifierError, NotReady, translatable
from flask_ibi_archive.server.web.requests import current_archive, read_query, request_root
from flask_ibi_archive.server.web.texts import gettext

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive

#: The number of entries of a list, and of most read items.
SHOWN, MOST_READ = 20, 10
#: The number of days in which embargoes end, and in which accesses are counted.
EMBARGO_DAYS, ACCESS_DAYS = 90, 365
#: The states of the registration for readers.
STATE_NAMES = {
    registration.NEVER: translatable("The Archive is not registered."),
    registration.EXCLUDED: translatable("The resolver has excluded the Archive."),
    registration.INCLUDED: translatable("The resolver includes the Archive."),
    registration.NOT_CONFIRMED: translatable(
        "The resolver includes the Archive, but could not call it back."
    ),
}
#: The kinds of faults of stored files for readers.
FAULT_NAMES = {
    "missing": translatable("missing"),
    "damaged": translatable("damaged"),
}
#: The name of the hidden field with the token, and the message about a wrong token.
TOKEN = "ibi_token"
EXPIRED = translatable("The form was open too long, or was sent by another site. Send it again.")
#: The key of the random number in the session.
KEY = "ibi_form"
#: The number of seconds for which a form may be open.
MAX_AGE = 12 * 3600


# --- the page ------------------------------------------------------------------------------------


def admin_page() -> Response:
    """Answer a request for the page of the librarian: the overview, or the form."""
    try:
        response = _answer()
    except (NotReady, ConfigError) as error:
        return item_pages.unavailable_page(error)
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Robots-Tag"] = "noindex"
    return response


def _answer() -> Response:
    query, archive = read_query(), current_archive()
    is_stored = archive.items.records is None
    if "withdraw" in query and is_stored:
        item = _find_item(query["withdraw"])
        return item if isinstance(item, Response) else _answer_form(item)
    text = query.get("q", "").strip()
    items = archive.find(text, limit=SHOWN) if text and is_stored else ()
    row = registration.read_registration(archive)
    state, since = registration.find_state(row)
    needs_nothing, advice = registration.describe(row, archive.config)
    return _render(
        "admin",
        registration={
            "state": state,
            "since": since,
            "record": row,
            "advice": None if needs_nothing else advice,
        },
        states=STATE_NAMES,
        overview=read_overview(archive) if is_stored else None,
        fault_names=FAULT_NAMES,
        text=text,
        found=[item for item in items if not item.is_service],
        follows_row=_follows_row,
        withdrawn=query.get("withdrawn"),
        access_days=ACCESS_DAYS,
        embargo_days=EMBARGO_DAYS,
    )


def _render(template: str, **values: Any) -> Response:
    """Return a page with the variables that both pages of the librarian have."""
    status = 422 if values.get("errors") else 200
    token = _serializer().dumps(session.setdefault(KEY, secrets.token_urlsafe(16)))
    base = _find_base()
    return item_pages.page(template, status, base=base, token_name=TOKEN, token=token, **values)


def _find_base() -> str:
    """Return the path of the page, which the host chose."""
    return f"{request_root()}{request.path}"


# --- the form ------------------------------------------------------------------------------------


def _find_item(text: str) -> ItemView | Response:
    """Return the item that the form withdraws; or the page that says why there is no form."""
    try:
        item = current_archive().get(text)
    except IdentifierError as error:
        return item_pages.no_item_page(error.suggestion)
    if item is None or item.is_service:
        return item_pages.no_item_page(text)
    if item.record.state == State.DELETED:
        return item_pages.message(409, gettext("This item was removed"), item=item)
    if _follows_row(item):
        return item_pages.message(
            409,
            gettext("This item belongs to a record of the repository"),
            gettext("Withdraw the record in the repository; the item is then withdrawn, too."),
            item=item,
        )
    return item


def _follows_row(item: ItemView) -> bool:
    """Return whether an item follows a row of the host's own models."""
    key = item.record.key or ""
    return any(key.startswith(build_prefix(mapper)) for mapper in identified_models)


def _answer_form(item: ItemView) -> Response:
    """Show the form that withdraws an item, and withdraw the item if the form is sent."""
    names = ("reason", "successor", "citation", "discard_description")
    values = {name: request.form.get(name, "").strip() for name in names}
    errors: dict[str, list[str]] = {}
    if request.method == "POST":
        errors = _withdraw(item, values)
        if not errors:
            return item_pages.redirect_to(f"{_find_base()}?withdrawn={item.ibi}", 303)
    return _render("admin_withdraw", item=item, values=values, errors=errors)


def _withdraw(item: ItemView, values: dict[str, str]) -> dict[str, list[str]]:
    """Withdraw an item, and return the errors by field; "" is the whole form."""
    if not _has_token():
        return {"": [gettext(EXPIRED)]}
    if not values["reason"]:
        return {"reason": [gettext("Fill in this field.")]}
    try:
        current_archive().without_session().delete(
            item.ibi,
            values["reason"],
            citation=values["citation"] or None,
            successor=values["successor"] or None,
            discard_description=bool(values["discard_description"]),
        )
    except NotReady:
        raise
    except IBIError as error:
        cause = error.__cause__
        if isinstance(cause, FieldError):
            return {cause.field: [cause.reason]}
        return {"": [str(error)]}
    return {}


def _has_token() -> bool:
    """Return whether the form has a token of the current user, at most :data:`MAX_AGE` old."""
    try:
        number = _serializer().loads(request.form.get(TOKEN, ""), max_age=MAX_AGE)
    except BadData:
        return False
    return KEY in session and secrets.compare_digest(number, session[KEY])


def _serializer() -> URLSafeTimedSerializer:
    keys: list[Any] = [*current_archive().config.secret_keys]
    return URLSafeTimedSerializer(keys, salt=KEY)


# --- the overview --------------------------------------------------------------------------------


class Entry(NamedTuple):
    """An item in a list, and the values that the list shows about it."""

    item: ItemView
    values: Row[Any]


def read_overview(archive: Archive) -> dict[str, Any]:
    """Return what the page shows about the items, at one moment."""
    archive_id, today = archive.served().id, archive.today
    check = select(FileCheck.checked_at, FileCheck.faults).filter_by(archive_id=archive_id)
    with archive.database.snapshot() as connection:
        embargoes = _find_embargoes(connection, archive_id, today)
        most_read = _find_most_read(connection, archive_id, today)
        file_check = connection.execute(check).first()
        faults = [] if file_check is None else file_check.faults[:SHOWN]
        owners = ownership.find_owners(connection, archive_id, [fault["ibi"] for fault in faults])
        ids = {
            *(row.id for row in (*embargoes, *most_read)),
            *(owner.id for owner in owners.values()),
        }
        reader = read.ItemReader(connection, archive_id, today=today, with_descriptions=True)
        items = reader.read_items([*ids])
    of_faults = {ibi: items.get(owner.id) for ibi, owner in owners.items()}
    return {
        "embargoes": {
            "entries": [Entry(items[row.id], row) for row in embargoes],
            "total": embargoes[0].total if embargoes else 0,
        },
        "most_read": [Entry(items[row.id], row) for row in most_read],
        "faulty_files": [{**fault, "item": of_faults.get(fault["ibi"])} for fault in faults],
        "file_check": file_check,
    }


def _find_embargoes(connection: Connection, archive_id: int, today: date) -> Sequence[Row[Any]]:
    """Return the embargoes that end soon, the next one first."""
    last = today + timedelta(days=EMBARGO_DAYS)
    is_near = Item.archive_id == archive_id, Item.embargo > today, Item.embargo <= last
    columns: list[Any] = [Item.id, Item.embargo, func.count().over().label("total")]
    return connection.execute(
        select(*columns).where(*is_near).order_by(Item.embargo, Item.id).limit(SHOWN)
    ).all()


def _find_most_read(connection: Connection, archive_id: int, today: date) -> Sequence[Row[Any]]:
    """Return the items with the most accesses in the last year."""

    def count(content_type: str) -> Any:
        counted = case((AccessCount.content_type == content_type, AccessCount.accesses), else_=0)
        return func.sum(counted)

    is_same = ItemIdentifier.archive_id == AccessCount.archive_id
    of_year = AccessCount.day > today - timedelta(days=ACCESS_DAYS)
    return connection.execute(
        select(
            ItemIdentifier.item_id.label("id"),
            count("Metadata").label("views"),
            count("Data").label("downloads"),
        )
        .join(ItemIdentifier, is_same & (ItemIdentifier.text == AccessCount.ibi))
        .where(AccessCount.archive_id == archive_id, of_year)
        .group_by(ItemIdentifier.item_id)
        .having(func.sum(AccessCount.accesses) > 0)
        .order_by(func.sum(AccessCount.accesses).desc(), ItemIdentifier.item_id)
        .limit(MOST_READ)
    ).all()
