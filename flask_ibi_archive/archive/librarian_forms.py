"""The forms of the librarian: what they show, and what they store.

A form contains a token: the random number in the session of the user, signed. A form of another
site can't contain it (CSRF). This does not need an extension of the host. If the host has one, such
as Flask-WTF, the forms contain its token, too.
"""

from __future__ import annotations

import secrets
from typing import Any

from flask import Response, request, session
from itsdangerous import BadData, URLSafeTimedSerializer

from flask_ibi_archive.archive.hosts.models import build_prefix, identified_models
from flask_ibi_archive.archive.items import item_pages
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records.record import ItemView
from flask_ibi_archive.core.records.values import FieldError
from flask_ibi_archive.errors import IBIError, IdentifierError, NotReady, translatable
from flask_ibi_archive.server.web.requests import current_archive, request_root
from flask_ibi_archive.server.web.texts import gettext

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


# --- withdrawal ----------------------------------------------------------------------------------


def find_item(text: str) -> ItemView | Response:
    """Return the item that the form withdraws; or the page that says why there is no form."""
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
            gettext("Withdraw the record in the repository; the item is then withdrawn, too."),
            item=item,
        )
    return item


def follows_row(item: ItemView) -> bool:
    """Return whether an item follows a row of the host's own models."""
    key = item.record.key or ""
    return any(key.startswith(build_prefix(mapper)) for mapper in identified_models)


def answer_withdrawal(item: ItemView) -> Response:
    """Show the form that withdraws an item, and withdraw the item if the form is sent."""
    names = ("reason", "successor", "citation", "discard_description")
    values = {name: request.form.get(name, "").strip() for name in names}
    errors: dict[str, list[str]] = {}
    if request.method == "POST":
        errors = _withdraw(item, values)
        if not errors:
            return item_pages.redirect_to(f"{find_base()}?withdrawn={item.ibi}", 303)
    return render("admin_withdraw", item=item, values=values, errors=errors)


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
