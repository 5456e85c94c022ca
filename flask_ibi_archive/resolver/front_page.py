"""The front page of the resolver. Its form redirects to an item or decodes an identifier."""

from __future__ import annotations

from dataclasses import dataclass

from flask import Response, current_app, request
from werkzeug.exceptions import NotFound

from flask_ibi_archive.core.identifiers import Form, Identifier, decode_identifier, format_date
from flask_ibi_archive.core.resolution.persistent_url import (
    format_persistent_target,
    read_persistent_url,
)
from flask_ibi_archive.errors import IdentifierError, MalformedPersistentUrl
from flask_ibi_archive.reasons import Reason, translatable
from flask_ibi_archive.server.pages.alerts import method_response
from flask_ibi_archive.server.pages.requests import RESOLVER_EXTENSION, read_query, request_root
from flask_ibi_archive.server.pages.responses import render_page, set_headers
from flask_ibi_archive.server.pages.texts import gettext, translate_reason

#: The maximum number of characters of the entered text that the form shows again.
MAX_SHOWN = 2048
EXAMPLES = (
    "8JMKD3MGP8W/35MMLL8",
    "sid.inpe.br/mtc-m18/2009/02.16.17.46",
    "http://urlib.net/8JMKD3MGP8W/35MMLL8!:(oai_dc)",
)
#: The modifiers that the page explains, each with an explanation in English. A modifier follows
#: the IBI in a persistent URL. For example, a modifier requests the metadata of the item or a
#: translation of the item.
MODIFIERS = (
    ("", translatable("the item itself")),
    (":", translatable("the metadata")),
    (":(oai_dc)", translatable("the metadata in a format")),
    ("!", translatable("the last edition")),
    ("+", translatable("the translation into your browser's language")),
    ("+(pt-BR)", translatable("the translation into a language")),
    ("/data/table.csv", translatable("a file of the item")),
)


@dataclass(frozen=True, slots=True)
class InputFault:
    """The reason why the entered text is not accepted.

    :param text: the message that the page shows, in the language of the page.
    :param reason: a more specific reason. None if no such reason is known.
    :param suggestion: the identifier that the user probably meant. None if there is no suggestion.
    """

    text: str
    reason: Reason | str | None = None
    suggestion: str | None = None


def show_at_root() -> Response | None:
    """Show the front page at "/" if the app has no own page at "/".

    This function is a ``before_app_request`` hook.

    :returns: None if the app handles the request.
    """
    if request.path != "/" or not isinstance(request.routing_exception, NotFound):
        return None
    if request.method not in ("GET", "HEAD"):
        return method_response()
    return front()


def front() -> Response:
    """Return the response of the front page: the form, a redirect or a decoded identifier."""
    values = read_query()
    if "ibi" not in values:
        return _page("")
    text = values["ibi"].strip()
    if not text:
        return _page("", fault=InputFault(gettext("Enter an IBI or a persistent URL.")))
    try:
        wanted = read_persistent_url(text)
    except MalformedPersistentUrl as error:
        message = gettext("This is not a persistent URL")
        return _page(text, fault=InputFault(message, error.reason, error.suggestion))
    target = request_root() + format_persistent_target(wanted)
    if values.get("do") != "decode":
        return set_headers(Response(status=302, headers={"Location": target}))
    try:
        facts = decode_facts(wanted.ibi)
    except IdentifierError as error:
        message = gettext(
            "The identifier is well-formed, but does not show where and when it was minted"
        )
        return _page(text, fault=InputFault(message, error.reason, error.suggestion))
    return _page(text, ibi=wanted.ibi, facts=facts, target=target)


def decode_facts(ibi: Identifier) -> list[tuple[str, str, str]]:
    """Return the names, labels and values of the host, IP address, port and date in an identifier.

    Values that the identifier does not contain are omitted.

    :raises IdentifierError: if the identifier does not encode an address and a date.
    """
    decoded = decode_identifier(ibi)
    facts = (
        ("host", gettext("Host"), decoded.host),
        ("ip", gettext("IP address"), decoded.ip),
        ("port", gettext("Port"), None if decoded.port is None else str(decoded.port)),
        ("date", gettext("Minted on"), None if decoded.date is None else format_date(decoded.date)),
    )
    return [(name, label, value) for name, label, value in facts if value is not None]


def _describe_form(form: Form) -> str:
    texts = {
        Form.REP: gettext("repository name, made from a domain name"),
        Form.IBIP: gettext("IBIp, made from an IP address"),
        Form.LEGACY: gettext(
            "identifier from before the standard; it does not show where or when it was minted"
        ),
    }
    return texts[form]


def _page(
    text: str,
    fault: InputFault | None = None,
    ibi: Identifier | None = None,
    facts: list[tuple[str, str, str]] | None = None,
    target: str = "",
) -> Response:
    root = request_root()
    return render_page(
        "front",
        400 if fault else 200,
        root=root,
        text=text[:MAX_SHOWN].encode("utf-8", "replace").decode("utf-8"),
        fault=fault,
        reason=translate_reason(fault.reason) if fault else "",
        ibi=ibi,
        form=_describe_form(ibi.form) if ibi else "",
        facts=facts,
        target=target,
        examples=EXAMPLES,
        modifiers=MODIFIERS,
        has_conflicts=f"{RESOLVER_EXTENSION}.conflicts" in current_app.view_functions,
        has_registry=f"{RESOLVER_EXTENSION}.registry" in current_app.view_functions,
        is_legacy=ibi is not None and ibi.form is Form.LEGACY,
    )
