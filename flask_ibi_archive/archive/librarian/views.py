"""The page of the librarian, which the host shows behind its login (``ibi.admin_page()``)."""

from __future__ import annotations

from typing import Any

from flask import Response, request

from flask_ibi_archive.archive.hosts.identified_item import identified_models
from flask_ibi_archive.archive.hosts.row_keys import build_prefix
from flask_ibi_archive.archive.items import pages
from flask_ibi_archive.archive.joining import registration_state
from flask_ibi_archive.archive.librarian import overview
from flask_ibi_archive.archive.librarian.form_tokens import is_token_valid, issue_token
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records.record import ItemView
from flask_ibi_archive.core.records.values import FieldError
from flask_ibi_archive.errors import ConfigError, IBIError, IdentifierError, NotReady
from flask_ibi_archive.reasons import translatable
from flask_ibi_archive.server.web.requests import current_archive, read_query, request_root
from flask_ibi_archive.server.web.texts import gettext

#: The states of the registration for readers.
STATE_NAMES = {
    registration_state.NEVER: translatable("The Archive is not registered."),
    registration_state.EXCLUDED: translatable("The resolver has excluded the Archive."),
    registration_state.INCLUDED: translatable("The resolver includes the Archive."),
    registration_state.NOT_CONFIRMED: translatable(
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


def admin_page() -> Response:
    """Answer a request for the page of the librarian: the overview, or the form."""
    try:
        response = _answer()
    except (NotReady, ConfigError) as error:
        return pages.unavailable_page(error)
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Robots-Tag"] = "noindex"
    return response


def _answer() -> Response:
    query = read_query()
    if "withdraw" in query and current_archive().items.records is None:
        item = find_item(query["withdraw"])
        return item if isinstance(item, Response) else withdraw_page(item)
    return overview_page(query)


def overview_page(query: dict[str, str]) -> Response:
    """Return the page that shows what needs attention, and the items that a search finds."""
    archive = current_archive()
    text = query.get("q", "").strip()
    is_stored = archive.items.records is None
    found = archive.find(text, limit=overview.SHOWN) if text and is_stored else ()
    return render(
        "admin",
        registration=overview.read_registration(archive),
        states=STATE_NAMES,
        overview=overview.read_overview(archive) if is_stored else None,
        fault_names=FAULT_NAMES,
        text=text,
        found=[item for item in found if not item.is_service],
        follows_row=follows_row,
        withdrawn=query.get("withdrawn"),
        access_days=overview.ACCESS_DAYS,
        embargo_days=overview.EMBARGO_DAYS,
    )


def find_item(text: str) -> ItemView | Response:
    """Return the item that the form withdraws; or the page that says why there is no form."""
    try:
        item = current_archive().get(text)
    except IdentifierError as error:
        return pages.no_item_page(error.suggestion)
    if item is None or item.is_service:
        return pages.no_item_page(text)
    if item.record.state == State.DELETED:
        return pages.message(409, gettext("This item was removed"), item=item)
    if follows_row(item):
        return pages.message(
            409,
            gettext("This item belongs to a record of the repository"),
            gettext("Withdraw the record in the repository; the item is then withdrawn, too."),
            item=item,
        )
    return item


def follows_row(item: ItemView) -> bool:
    """Return whether an item follows a row of the host's own models."""
    key = item.record.key or ""
    return any(key.startswith(build_prefix(mapper)) for mapper in identified_models)


def withdraw_page(item: ItemView) -> Response:
    """Show the form that withdraws an item, and withdraw the item if the form is sent."""
    names = ("reason", "successor", "citation", "discard_description")
    values = {name: request.form.get(name, "").strip() for name in names}
    errors: dict[str, list[str]] = {}
    if request.method == "POST":
        errors = check_token() or _withdraw(item, values)
        if not errors:
            return pages.redirect_to(f"{find_base()}?withdrawn={item.ibi}", 303)
    return render("admin_withdraw", item=item, values=values, errors=errors)


def _withdraw(item: ItemView, values: dict[str, str]) -> dict[str, list[str]]:
    """Withdraw an item, and return the errors by field."""
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
        return locate_error(error)
    return {}


def check_token() -> dict[str, list[str]]:
    """Return an error of the whole form if the token of the form is wrong."""
    return {} if is_token_valid(request.form.get(TOKEN, "")) else {"": [gettext(EXPIRED)]}


def locate_error(error: IBIError) -> dict[str, list[str]]:
    """Return the message of an error by the field to which it belongs; "" for the whole form."""
    cause = error.__cause__
    if isinstance(cause, FieldError):
        return {cause.field: [cause.reason]}
    return {"": [str(error)]}


def find_base() -> str:
    """Return the path of the page, which the host chose."""
    return f"{request_root()}{request.path}"


def render(template: str, **values: Any) -> Response:
    """Return a page with the variables that both pages of the librarian have."""
    status = 422 if values.get("errors") else 200
    return pages.page(
        template,
        status,
        base=find_base(),
        token_name=TOKEN,
        token=issue_token(),
        **values,
    )
