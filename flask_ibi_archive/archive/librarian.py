"""The page of the librarian, which the host shows behind its login (``ibi.admin_page()``).

The page begins with a search and the items that it finds. The forms for them are in the module
``librarian_forms``. Then the page shows what needs attention: stored results only; it sends no
requests to other servers, unless the librarian checks the links now. The number of SQL statements
does not depend on the number of items. Each list shows the first :data:`SHOWN` entries and the
number of all of them.

The module is above the subjects of the Archive, because the page shows results of several of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from itertools import islice
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from flask import Response, request
from sqlalchemy import Connection, Row, case, func, select

from flask_ibi_archive.archive import care
from flask_ibi_archive.archive import librarian_forms as forms
from flask_ibi_archive.archive.care import FileCheck
from flask_ibi_archive.archive.items import item_pages, ownership, read
from flask_ibi_archive.archive.items.tables import (
    AccessCount,
    Item,
    ItemIdentifier,
    ReservationRow,
)
from flask_ibi_archive.archive.joining import registration
from flask_ibi_archive.archive.pages import labels
from flask_ibi_archive.core.records.description import WorkType, find_best_type
from flask_ibi_archive.core.records.record import ItemView
from flask_ibi_archive.core.records.values import clean
from flask_ibi_archive.core.records.work import Work
from flask_ibi_archive.errors import ConfigError, NotReady, one_line, translatable
from flask_ibi_archive.server.web.requests import current_archive, read_query
from flask_ibi_archive.server.web.texts import gettext

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive

#: The number of entries of a list, and of most read items.
SHOWN, MOST_READ = 20, 10
#: The number of seconds for a check of files, and of links that are checked together.
CHECK_SECONDS, CHECKED_LINKS = 20, 50
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
    check = request.form.get("check") if archive.items.records is None else None
    if check is not None and forms.has_token():
        return _check_links(archive) if check == "links" else _check_files(archive)
    is_stored = archive.items.records is None
    if "new" in query and is_stored:
        return forms.answer_description(None)
    if "import" in query and is_stored:
        return forms.answer_import()
    for name, answer in FORMS.items() if is_stored else ():
        if name in query:
            item = forms.find_item(query[name], is_edited=name != "withdraw")
            return item if isinstance(item, Response) else answer(item)
    row = registration.read_registration(archive)
    state, since = registration.find_state(row)
    needs_nothing, advice = registration.describe(row, archive.config)
    return forms.render(
        "admin",
        registration={
            "state": state,
            "since": since,
            "record": row,
            "advice": None if needs_nothing else advice,
        },
        states=STATE_NAMES,
        overview=read_overview(archive, Search.read(query)) if is_stored else None,
        fault_names=FAULT_NAMES,
        labels=labels,
        orders=ORDERS,
        page_size=SHOWN,
        follows_row=forms.follows_row,
        done={name: query[name] for name in ("saved", "imported", "withdrawn") if name in query},
        errors={"": [gettext(forms.EXPIRED)]} if check is not None else {},
        unchecked=query.get("unchecked"),
        access_days=ACCESS_DAYS,
        embargo_days=EMBARGO_DAYS,
    )


def _check_files(archive: Archive) -> Response:
    """Check the stored files, and store the result if the time allows to check all of them."""
    end, base = monotonic() + CHECK_SECONDS, forms.find_base()

    def stop(done: int, total: int) -> None:
        if done < total and monotonic() > end:
            raise TimeoutError

    served_id, store = archive.served().id, archive.files_folder
    try:
        faults = list(care.find_faults(archive.database, served_id, store, stop))
    except TimeoutError:
        return item_pages.redirect_to(f"{base}?unchecked={CHECK_SECONDS}#ibi-faulty", 303)
    care.store_faults(archive.database, served_id, faults, archive.clock())
    return item_pages.redirect_to(f"{base}#ibi-faulty", 303)


def _check_links(archive: Archive) -> Response:
    """Check some of the links of the items, and show those that do not work."""
    links = care.read_links(archive.database, archive.served().id)
    first = max(0, min(request.form.get("first", 0, int), len(links)))
    part = dict(islice(links.items(), first, first + CHECKED_LINKS))
    broken = care.find_broken(part, archive.config.base_url, archive.config.inner_hosts)
    position = {"first": first, "last": first + len(part), "total": len(links)}
    return forms.render("admin_links", broken=list(broken), **position)


#: The forms for an item, by the names of their parameters.
FORMS: dict[str, Callable[[ItemView], Response]] = {
    "edit": forms.answer_description,
    "files": forms.answer_files,
    "withdraw": forms.answer_withdrawal,
}


# --- the items -----------------------------------------------------------------------------------


#: The orders of the list of items.
ORDERS = {
    "newest": translatable("newest first"),
    "title": translatable("by title"),
    "type": translatable("by type"),
    "year": translatable("by year, the newest first"),
}


class Search(NamedTuple):
    """What the list of items shows.

    :param q: the words that the items contain; "" for all items.
    :param type: the type of the items, or "".
    :param year: the year of publication of the items, or "".
    :param order: one of :data:`ORDERS`.
    :param page: the number of the page of the list, from 1.
    """

    q: str
    type: str
    year: str
    order: str
    page: int = 1

    @classmethod
    def read(cls, query: Mapping[str, str]) -> Search:
        """Return what a query states. Wrong values count as missing ones."""

        def read(name: str) -> str:
            return one_line(clean(query.get(name, "")))[:200]

        def read_number(name: str) -> str:
            text = query.get(name, "")
            return text if text.isascii() and text.isdecimal() and 0 < len(text) < 7 else ""

        order = query.get("order", "")
        order = order if order in ORDERS else "newest"
        page = max(int(read_number("page") or 1), 1)
        return cls(read("q"), read("type"), read_number("year"), order, page)

    def find_page(self, step: int) -> str:
        """Return the query of another page of the list."""
        return urlencode({**self._asdict(), "page": self.page + step})


class Found(NamedTuple):
    """An item in the list, and its description."""

    item: ItemView
    work: Work


def _find_items(
    connection: Connection, archive_id: int, search: Search
) -> tuple[list[WorkType], Sequence[Row[Any]]]:
    """Return the types of the items, and the ids of those that the page of the list shows."""
    is_own = Item.archive_id == archive_id, ~Item.is_service
    stated = read.Types(Item.dublin_core)
    texts: dict[WorkType, list[str]] = {}
    for text in connection.scalars(select(stated).where(*is_own).distinct()):
        if text:
            texts.setdefault(find_best_type(text.split("\n"))[1], []).append(text)
    where = [*is_own, *read.select_items(archive_id, search=search.q)]
    if search.type in texts:
        where.append(stated.in_(texts[WorkType(search.type)]))
    if search.year:
        where.append(Item.issued_year == int(search.year))
    orders: dict[str, Any] = {
        "title": func.lower(func.coalesce(read.Titles(Item.dublin_core), "")),
        "type": func.lower(func.coalesce(stated, "")),
        "year": func.coalesce(Item.issued_year, 0).desc(),
    }
    columns: list[Any] = [Item.id, func.count().over().label("total")]
    order = [orders[search.order]] if search.order in orders else []
    statement = select(*columns).where(*where).order_by(*order, Item.id.desc())
    first = (search.page - 1) * SHOWN
    rows = connection.execute(statement.limit(SHOWN).offset(first)).all()
    return [type for type in labels.TYPES if type in texts], rows


# --- the overview --------------------------------------------------------------------------------


class Entry(NamedTuple):
    """An item in a list, and the values that the list shows about it."""

    item: ItemView
    values: Row[Any]


def read_overview(archive: Archive, search: Search) -> dict[str, Any]:
    """Return what the page shows about the items, at one moment."""
    archive_id, today = archive.served().id, archive.today
    check = select(FileCheck.checked_at, FileCheck.faults).filter_by(archive_id=archive_id)
    with archive.database.snapshot() as connection:
        types, rows = _find_items(connection, archive_id, search)
        drafts = connection.execute(
            select(ReservationRow.ibip, ReservationRow.note, ReservationRow.reserved_at)
            .filter_by(archive_id=archive_id, status=ownership.HELD, host_key=None)
            .order_by(ReservationRow.reserved_at.desc())
            .limit(SHOWN)
        ).all()
        embargoes = _find_embargoes(connection, archive_id, today)
        most_read = _find_most_read(connection, archive_id, today)
        file_check = connection.execute(check).first()
        faults = [] if file_check is None else file_check.faults[:SHOWN]
        owners = ownership.find_owners(connection, archive_id, [fault["ibi"] for fault in faults])
        ids = {
            *(row.id for row in (*rows, *embargoes, *most_read)),
            *(owner.id for owner in owners.values()),
        }
        reader = read.ItemReader(connection, archive_id, today=today, with_descriptions=True)
        items = reader.read_items([*ids])
    of_faults = {ibi: items.get(owner.id) for ibi, owner in owners.items()}
    found = [items[row.id] for row in rows]
    return {
        "search": search,
        "types": types,
        "found": [Found(item, item_pages.describe_work(item)) for item in found],
        "total": rows[0].total if rows else 0,
        "drafts": drafts,
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
