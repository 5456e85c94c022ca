"""The page of the librarian, which the host shows behind its login (``ibi.admin_page()``).

The page begins with a search and the items that it finds. The forms for these items are in the
module ``librarian_forms``. Then the page shows what needs attention. This part shows stored results
only: requests to other servers are sent only when the librarian asks for a check of the links. The
number of SQL statements does not depend on the number of items. Each list shows the first
:data:`SHOWN` entries and the number of all of them.

The page shows results of several subjects of the Archive. Therefore this module is above their
packages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from itertools import islice
from time import monotonic
from typing import TYPE_CHECKING, Any

from flask import Response, request
from sqlalchemy import Connection, Row, case, func, select

from flask_ibi_archive.archive import care
from flask_ibi_archive.archive import librarian_forms as forms
from flask_ibi_archive.archive.items import item_pages, ownership, read
from flask_ibi_archive.archive.items.tables import AccessCount, Item, ItemIdentifier, ReservationRow
from flask_ibi_archive.archive.joining import registration
from flask_ibi_archive.archive.pages import labels
from flask_ibi_archive.core.records.description import WorkType, find_best_type
from flask_ibi_archive.core.records.values import clean
from flask_ibi_archive.errors import ConfigError, NotReady, one_line
from flask_ibi_archive.server.web.requests import current_archive, read_query

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive

#: The number of entries of a list, and of most read items.
SHOWN, MOST_READ = 20, 10
#: The number of seconds for a check of files, and of links that are checked together.
CHECK_SECONDS, CHECKED_LINKS = 20, 50
#: The number of days in which embargoes end, and in which accesses are counted.
EMBARGO_DAYS, ACCESS_DAYS = 90, 365


# --- the page ------------------------------------------------------------------------------------


def admin_page() -> Response:
    """Answer a request for the page of the librarian: the overview, or a form."""
    try:
        response = _answer(current_archive(), read_query())
    except (NotReady, ConfigError) as error:
        return item_pages.unavailable_page(error)
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Robots-Tag"] = "noindex"
    return response


def _answer(archive: Archive, query: Mapping[str, str]) -> Response:
    errors, done, overview = forms.Errors(), list[Response](), None
    if archive.items.records is None:
        for name, answer in FORMS.items():
            if name in query:
                return answer(query[name])
        acts = [act for name, act in ACTIONS.items() if name in request.form]
        if acts:
            errors = forms.attempt(lambda: done.extend(act(archive) for act in acts))
        if done:
            return done[0]
        overview = read_overview(archive, read_search(query))
    row = registration.read_registration(archive)
    state, since = registration.find_state(row)
    needs_nothing, advice = registration.describe(row, archive.config)
    shown = {"state": state, "since": since, "record": row}
    return forms.render(
        "admin",
        registration={**shown, "advice": None if needs_nothing else advice},
        overview=overview,
        labels=labels,
        page_size=SHOWN,
        follows_row=forms.follows_row,
        done=[(name, query[name]) for name in ("saved", "imported", "withdrawn") if name in query],
        errors=errors,
        unchecked=query.get("unchecked"),
        embargo_days=EMBARGO_DAYS,
    )


#: The forms, by the names of their parameters.
FORMS: dict[str, Callable[[str], Response]] = {
    "new": lambda type: forms.answer_description(None),
    "import": lambda _: forms.answer_import(),
    "edit": lambda ibi: forms.answer_item(forms.answer_description, ibi),
    "files": lambda ibi: forms.answer_item(forms.answer_files, ibi),
    "withdraw": lambda ibi: forms.answer_item(forms.answer_withdrawal, ibi, is_edited=False),
}


def _reserve(archive: Archive) -> Response:
    """Reserve an identifier for a draft."""
    archive.without_session().reserve(request.form.get("note", "").strip() or None)
    return forms.go_to("#ibi-drafts")


def _release(archive: Archive) -> Response:
    """End the reservation of an identifier for a draft."""
    archive.without_session().release(request.form["release"])
    return forms.go_to("#ibi-drafts")


def _check_files(archive: Archive) -> Response:
    """Check the stored files; store the result, unless the time was too short to check all."""
    end = monotonic() + CHECK_SECONDS

    def stop(done: int, total: int) -> None:
        if done < total and monotonic() > end:
            raise TimeoutError

    served_id, store = archive.served().id, archive.files_folder
    try:
        faults = list(care.find_faults(archive.database, served_id, store, stop))
    except TimeoutError:
        return forms.go_to(f"?unchecked={CHECK_SECONDS}#ibi-faulty")
    care.store_faults(archive.database, served_id, faults, archive.clock())
    return forms.go_to("#ibi-faulty")


def _check_links(archive: Archive) -> Response:
    """Check some links of the items, and show the broken ones."""
    links = care.read_links(archive.database, archive.served().id)
    first = max(0, request.form.get("check_links", 0, int))
    part = dict(islice(links.items(), first, first + CHECKED_LINKS))
    broken = care.find_broken(part, archive.config.base_url, archive.config.inner_hosts)
    position = {"last": first + len(part), "total": len(links)}
    return forms.render("admin_links", broken=list(broken), **position)


#: What the buttons of the overview do, by their names.
ACTIONS: dict[str, Callable[[Archive], Response]] = {
    "reserve": _reserve,
    "release": _release,
    "check_files": _check_files,
    "check_links": _check_links,
}


# --- the items -----------------------------------------------------------------------------------


def read_search(query: Mapping[str, str]) -> dict[str, Any]:
    """Return what the list of items must show, from the query of the URL.

    The keys are "q" (words), "type", "year", "order" and "page" (a number from 1).
    """
    page = query.get("page", "")
    return {
        **{name: one_line(clean(query.get(name, "")))[:200] for name in ("q", "type", "order")},
        "year": query.get("year", "") if re.fullmatch("[0-9]{1,6}", query.get("year", "")) else "",
        "page": int(page) if re.fullmatch("[1-9][0-9]{0,5}", page) else 1,
    }


def _find_items(
    connection: Connection, archive_id: int, search: Mapping[str, Any]
) -> tuple[list[WorkType], Sequence[Row[Any]]]:
    """Return the types that items have, and the rows of the items on one page of the list."""
    is_own = Item.archive_id == archive_id, ~Item.is_service
    stated = read.Types(Item.dublin_core)
    texts: dict[WorkType, list[str]] = {}
    for text in connection.scalars(select(stated).where(*is_own).distinct()):
        if text:
            texts.setdefault(find_best_type(text.split("\n"))[1], []).append(text)
    where = [*is_own, *read.select_items(archive_id, search=search["q"])]
    if search["type"] in texts:
        where.append(stated.in_(texts[WorkType(search["type"])]))
    if search["year"]:
        where.append(Item.issued_year == int(search["year"]))
    orders: dict[str, Any] = {
        "title": func.lower(func.coalesce(read.Titles(Item.dublin_core), "")),
        "type": func.lower(func.coalesce(stated, "")),
        "year": func.coalesce(Item.issued_year, 0).desc(),
    }
    columns: list[Any] = [Item.id, func.count().over().label("total")]
    order = [orders[search["order"]]] if search["order"] in orders else []
    statement = select(*columns).where(*where).order_by(*order, Item.id.desc())
    rows = connection.execute(statement.limit(SHOWN).offset((search["page"] - 1) * SHOWN)).all()
    return [type for type in labels.TYPES if type in texts], rows


# --- the overview --------------------------------------------------------------------------------


def read_overview(archive: Archive, search: Mapping[str, Any]) -> dict[str, Any]:
    """Return the template variables of the overview. All are read at the same moment."""
    archive_id, today = archive.served().id, archive.today
    check = select(care.FileCheck.checked_at, care.FileCheck.faults)
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
        file_check = connection.execute(check.filter_by(archive_id=archive_id)).first()
        faults = [] if file_check is None else file_check.faults[:SHOWN]
        owners = ownership.find_owners(connection, archive_id, [fault["ibi"] for fault in faults])
        ids = {row.id for row in (*rows, *embargoes, *most_read)}
        reader = read.ItemReader(connection, archive_id, today=today, with_descriptions=True)
        items = reader.read_items([*ids | {owner.id for owner in owners.values()}])
    found = [items[row.id] for row in rows]
    of_faults = {ibi: items.get(owner.id) for ibi, owner in owners.items()}
    return {
        "search": search,
        "types": types,
        "found": [(item, item_pages.describe_work(item)) for item in found],
        "total": rows[0].total if rows else 0,
        "drafts": drafts,
        "embargoes": [(items[row.id], row) for row in embargoes],
        "most_read": [(items[row.id], row) for row in most_read],
        "faulty_files": [{**fault, "item": of_faults.get(fault["ibi"])} for fault in faults],
        "file_check": file_check,
    }


def _find_embargoes(connection: Connection, archive_id: int, today: date) -> Sequence[Row[Any]]:
    """Return rows of the items whose embargoes end soon, the earliest end first."""
    last = today + timedelta(days=EMBARGO_DAYS)
    is_near = Item.archive_id == archive_id, Item.embargo > today, Item.embargo <= last
    columns: list[Any] = [Item.id, Item.embargo, func.count().over().label("total")]
    statement = select(*columns).where(*is_near).order_by(Item.embargo, Item.id)
    return connection.execute(statement.limit(SHOWN)).all()


def _find_most_read(connection: Connection, archive_id: int, today: date) -> Sequence[Row[Any]]:
    """Return rows of the items with the most accesses in the last year, the most read first."""

    def count(content_type: str) -> Any:
        is_counted = AccessCount.content_type == content_type
        return func.sum(case((is_counted, AccessCount.accesses), else_=0))

    is_same = ItemIdentifier.archive_id == AccessCount.archive_id
    is_same &= ItemIdentifier.text == AccessCount.ibi
    of_year = AccessCount.day > today - timedelta(days=ACCESS_DAYS)
    id, accesses = ItemIdentifier.item_id, func.sum(AccessCount.accesses)
    return connection.execute(
        select(id.label("id"), count("Metadata").label("views"), count("Data").label("downloads"))
        .join(ItemIdentifier, is_same)
        .where(AccessCount.archive_id == archive_id, of_year)
        .group_by(id)
        .having(accesses > 0)
        .order_by(accesses.desc(), id)
        .limit(MOST_READ)
    ).all()
