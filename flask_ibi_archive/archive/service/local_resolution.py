"""Answers persistent URLs, foreign identifiers and former addresses on the host of an Archive.

The reader is redirected to an item of the Archive, or to the resolver. This module asks the Archive
in the same process, without HTTP requests, and comes to the same result as a resolver. A resolver
in the same app uses this module, too.

Another Archive may know more about an item. In this case the outcome is
:class:`NotHere`, and the resolver must resolve the URL.

The aliases of an item (the field ``same_as``) lead to the item as its persistent URL does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flask import Flask, Response, current_app, request
from werkzeug.exceptions import BadHost, NotFound
from werkzeug.routing import RequestRedirect

from flask_ibi_archive.archive.items.item_pages import find_new_place, find_resolver_url, tombstone
from flask_ibi_archive.archive.items.ownership import find_owners_and_originals
from flask_ibi_archive.core.identifiers.grammar import Identifier
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.hosts import normalize_host
from flask_ibi_archive.core.protocol.messages import Acknowledgment, Agents
from flask_ibi_archive.core.protocol.pairs import decode_query_string, decode_url, encode_word
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records.record import ItemView
from flask_ibi_archive.core.resolution import outcome as outcomes
from flask_ibi_archive.core.resolution.answer import Answer, ArchiveSource, Question
from flask_ibi_archive.core.resolution.choice import Analysis
from flask_ibi_archive.core.resolution.former_links import find_former_links, is_named
from flask_ibi_archive.core.resolution.outcome import Alert, AlertKind, NextRound, Redirect
from flask_ibi_archive.core.resolution.persistent_url import (
    MOVED_FROM,
    PersistentUrl,
    ResolutionRequest,
    parse_persistent_target,
)
from flask_ibi_archive.errors import ConfigError, MalformedPersistentUrl, NotReady
from flask_ibi_archive.server.config import RESOLVER_EXTENSION
from flask_ibi_archive.server.web import alerts, hooks, negotiation, request_log, requests
from flask_ibi_archive.server.web.responses import allow_origins, set_headers

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive


@dataclass(frozen=True, slots=True)
class NotHere:
    """The outcome if this Archive cannot resolve a persistent URL, but the resolver may.

    :param is_known: True if this Archive has at least one of the requested items.
    :param moved: the first requested item whose Original is in another Archive, or None.
    """

    is_known: bool
    moved: ItemView | None = None


LocalOutcome = Redirect | NotHere | ItemView | Alert


def resolve_locally(archive: Archive, requested: ResolutionRequest) -> LocalOutcome:
    """Resolve a persistent URL with the answers of one Archive.

    :returns: a redirect; or NotHere; or an Original that was removed; or an alert (an error for the
        reader). There is an alert in three cases: the resolution returns to an earlier item, the
        resolution needs too many rounds, or an item of this Archive does not have the requested
        part.
    :raises NotReady: if the database does not respond.
    Source: [R] 6.2.
    """
    source = ArchiveSource(
        archive.served().service_ibi, archive.config.archive_address, is_own=True
    )

    def ask(question: Question) -> Answer:
        pairs = answer_question(archive, question, requested.client_addresses)
        return Answer(source, question, pairs)

    analysis = Analysis(requested.wanted, requested.ranges)
    asked: list[Identifier] = []
    is_known = False
    outcome: outcomes.Outcome = NextRound(analysis.questions)
    while isinstance(outcome, NextRound):
        is_here = True
        removed: ItemView | None = None
        for question in analysis.questions:
            asked.append(question.ibi)
            answer = ask(question)
            if redirect := analysis.add_answer(answer):
                return redirect
            is_here = is_here and bool(answer.pairs)
            is_known = is_known or bool(answer.pairs)
            if answer.pairs.get("state") == (State.DELETED.value,):
                removed = _find_removed(archive, question.ibi)
                is_here = is_here and removed is not None
        if not is_here:
            # Another Archive may have a translation of the item. Without this check, the reader
            # would get the item in its own language instead.
            return NotHere(is_known, _find_moved(archive, asked) if is_known else None)
        outcome = analysis.finish_round(asked=1)
    if isinstance(outcome, Redirect) or outcome.kind in (AlertKind.LOOP, AlertKind.TOO_LONG):
        return outcome
    if removed is not None and outcome.kind is AlertKind.REMOVED:
        return removed
    # the Original of a Copy may have more parts
    moved = _find_moved(archive, asked)
    if requested.wanted.requires_original or moved is not None:
        return NotHere(True, moved)
    return outcomes.add_alternatives(outcome, map(ask, outcomes.ask_for_alternatives(outcome)))


def answer_question(
    archive: Archive, question: Question, client_addresses: tuple[str, ...]
) -> Mapping[str, tuple[str, ...]]:
    """Return the pairs that a resolver would read from the HTTP response of the Archive.

    :returns: the words of each pair, by the name of the pair.
    :raises NotReady: if the database does not respond.
    """
    request = question.create_request(client_addresses)
    if request.filepath:
        request = replace(request, filepath=decode_url(request.filepath))
    pairs = archive.list_urls(request, requested_only=True)
    words = {name: (value,) if isinstance(value, str) else value for name, value in pairs if value}
    for name in words:
        if name.startswith("url"):  # a URL may contain characters that must be encoded
            words[name] = (encode_word(words[name][0]),)
    return words


def create_local_acknowledgment(
    redirect: Redirect, requested: ResolutionRequest
) -> Acknowledgment | None:
    """Return the acknowledgment that a resolver would send for a redirect.

    :returns: None if the answer that led to the redirect has no URL key.
    """
    persistent_url = requested.persistent_url
    sent = redirect.create_acknowledgment(requested.client_addresses, persistent_url)
    if sent is None:
        return None
    return replace(sent, url=decode_url(redirect.url), persistent_url=decode_url(persistent_url))


def _find_moved(archive: Archive, asked: Sequence[Identifier]) -> ItemView | None:
    """Return the first of the asked items whose Original is in another Archive; otherwise None."""
    items = (archive.get(ibi.text) for ibi in asked)
    return next((item for item in items if item and item.record.original_elsewhere), None)


def _find_removed(archive: Archive, ibi: Identifier) -> ItemView | None:
    """Return a removed item, unless another Archive is known to have the Original; else None."""
    item = archive.get(ibi.text)
    if item is None or item.record.state != State.DELETED or item.record.original_elsewhere:
        return None
    with archive.database.reading() as connection:
        _, originals = find_owners_and_originals(
            connection, archive.served().id, item.record.identifiers
        )
    return None if originals else item


def answer_unrouted() -> Response | None:
    """Answer a persistent URL or a former link for which the app has no route.

    If the app also has a resolver, the resolver answers persistent URLs. A message to the service
    of another Archive looks like a persistent URL with a query. It is not answered here.

    :returns: None if this function does not answer the request.
    """
    failure = request.routing_exception
    others = RESOLVER_EXTENSION in current_app.extensions or requests.is_message()
    resolves = requests.current_archive().config.local_resolution and not others
    if resolves or isinstance(failure, BadHost | RequestRedirect):
        response = hooks.answer_unrouted(resolve, hooks.begins_with_ibi)
        if response is not None:
            return response
    if type(failure) is not NotFound or _is_for_resolver():
        return None
    failure.__traceback__ = failure.__context__ = None  # as in answer_unrouted()
    return answer_former_link()


def answer_over_catch_all() -> Response | None:
    """Answer a persistent URL or a former link if only a catch-all route of the app matches it.

    The pages of the app have precedence over former addresses at the same host.

    :returns: None if the app answers the request.
    """
    return answer_own_item() or (answer_former_link() if _is_meant_link() else None)


def answer_own_item() -> Response | None:
    """Answer the persistent URL of an item of this Archive, even if the app has a route for it.

    :returns: None if the app must answer, because the URL is another one.
    """
    if request.method not in ("GET", "HEAD") or requests.is_message():
        return None

    def resolve_own(requested: ResolutionRequest) -> Response | None:
        archive = requests.current_archive()
        with suppress(NotReady, ConfigError):
            if archive.config.local_resolution and archive.get(requested.wanted.ibi.text):
                return _find_resolve()(requested)
        return None

    return hooks.answer_target(resolve_own, lambda target: False)


def resolve(requested: ResolutionRequest) -> Response | None:
    """Answer a persistent URL without asking other Archives.

    If this Archive has the item, the response redirects to the item, and the access is counted as
    if a resolver had acknowledged it. If this Archive does not have the item, the response
    redirects to the resolver. If the item has moved, it redirects to where the item is now.

    :returns: None if the URL may be a page of the host.
    """
    if refusal := hooks.refuse_registration_key():
        return refusal
    archive = requests.current_archive()
    target = requested.persistent_url.removeprefix(requests.request_origin())
    try:
        outcome = resolve_locally(archive, requested)
        if isinstance(outcome, ItemView):
            return _removed_response(archive, outcome, target)
        if isinstance(outcome, NotHere):
            return _elsewhere_response(archive, outcome, requested.wanted, target)
    except (NotReady, ConfigError) as error:
        return alerts.unready_response(error)
    if isinstance(outcome, Redirect):
        return redirect_and_count(archive, outcome, requested)
    is_missing = outcome.kind is AlertKind.MISSING
    return alerts.alert_response(
        outcome, resolver_url=find_resolver_url(target) if is_missing else None
    )


def _elsewhere_response(
    archive: Archive, outcome: NotHere, wanted: PersistentUrl, target: str
) -> Response | None:
    """Redirect to the resolver, or to the Archive to which the item has moved.

    A reader who was redirected before, and has come back, sees the tombstone. This ends loops.

    :param target: the persistent URL without host.
    :returns: None if the URL may be a page of the host.
    """
    if not outcome.is_known and not hooks.is_plausible_ibi(wanted.ibi, target):
        return None
    moved, location = outcome.moved, find_resolver_url(target)
    is_removed = moved is not None and moved.record.state == State.DELETED
    if moved is not None and wanted.ibi.text in moved.record.identifiers:
        location = find_new_place(moved, target) or (None if is_removed else location)
    marker = (MOVED_FROM, archive.served().service_ibi)
    if location is not None and marker not in decode_query_string(target.partition("?")[2]):
        headers = {"Location": encode_word(location), "Vary": "Accept-Language"}
        response = set_headers(Response(status=302, headers=headers))
        allow_origins(response)
        return response
    if moved is not None and is_removed:
        return _removed_response(archive, moved, target)
    return alerts.alert_response(Alert(AlertKind.UNKNOWN, wanted.ibi), "unknown_here")


def redirect_and_count(
    archive: Archive, redirect: Redirect, requested: ResolutionRequest
) -> Response:
    """Redirect to an item of this Archive, and count the access.

    If the redirect leads back to the requested URL, the response is an alert about this loop.
    """
    if requests.is_request_url(redirect.url, archive.config.archive_address):
        return alerts.alert_response(Alert(AlertKind.LOOP, requested.wanted.ibi))
    response = alerts.redirect_response(redirect, requested.wanted)
    response.headers["Location"] = requests.find_path(response.headers["Location"])
    acknowledgment = create_local_acknowledgment(redirect, requested)
    if request.method == "GET" and acknowledgment is not None:
        agents = Agents(None, requested.user_agent)
        count_after_response(response, lambda: archive.take_acknowledgment(acknowledgment, agents))
    return response


@request_log.logged(request_log.FORMER_LINK)
def answer_former_link() -> Response | None:
    """Answer a foreign identifier or a former address, even if the app has a route for it.

    The response is the same as for the persistent URL of the item.

    :returns: None if no item of this Archive has this alias.
    """
    archive = requests.current_archive()
    if not archive.config.local_resolution or requests.is_message():
        return None
    config, host = archive.config, normalize_host(requests.request_host())
    is_ours = host in (normalize_host(config.archive_address), *config.former_hosts)
    # a proxy may add the path under which the app is mounted to the path of a former address
    bases = (
        [f"http://{host}{root}" for root in sorted({"", requests.request_root()})]
        if is_ours
        else []
    )
    links = find_former_links(requests.request_target(), bases)
    aliases = [link.alias for link in links]
    is_meant = _is_meant_link()
    try:
        # a page of the app that does not exist must not wait for the database
        if not links or not (is_meant or config.former_hosts or archive.items.may_have_addresses()):
            return None
        holder = archive.database.read(
            lambda connection: archive.items.find_by_alias(connection, aliases)
        )
    except (NotReady, ConfigError) as error:
        return alerts.unready_response(error) if is_meant else None
    if holder is None:
        return None
    if request.method not in ("GET", "HEAD"):
        return alerts.method_response()
    alias, ibi = holder
    link = links[aliases.index(alias)]
    wanted = replace(link.wanted, ibi=parse_identifier(ibi))
    return _find_resolve()(negotiation.read_resolution_request(wanted, f"/{ibi}{link.rest}"))


def _find_resolve() -> hooks.Resolve:
    """Return the function that answers persistent URLs: that of the app's resolver, or ours."""
    answer: hooks.Resolve = current_app.extensions.get(hooks.RESOLVE, resolve)
    return answer


def _is_meant_link() -> bool:
    """Return whether the requested address is certainly not a page of the app."""
    host = normalize_host(requests.request_host())
    return (
        is_named(requests.request_target())
        or host in requests.current_archive().config.former_hosts
    )


def _is_for_resolver() -> bool:
    """Return whether the URL is a persistent URL that a resolver in the same app answers."""
    if RESOLVER_EXTENSION not in current_app.extensions:
        return False
    target = requests.request_target()
    try:
        return hooks.is_plausible_ibi(parse_persistent_target(target).ibi, target)
    except MalformedPersistentUrl:
        return False


class OwnArchive:
    """The Archive of this app, for a resolver in the same app, which asks it without HTTP.

    The object is in ``app.extensions``, so that Archive and resolver can be added to an app in any
    order.
    """

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    def find_service(self) -> str | None:
        """Return the IBI of the service; None if the Archive is not ready."""
        try:
            return self._archive.served().service_ibi
        except (NotReady, ConfigError):
            return None

    def answer(
        self, question: Question, client_addresses: tuple[str, ...]
    ) -> Mapping[str, tuple[str, ...]]:
        """Return the pairs that a resolver would read from the HTTP response of the Archive.

        :returns: the words of each pair, by the name of the pair.
        :raises NotReady: if the database does not respond.
        """
        return answer_question(self._archive, question, client_addresses)

    def resolve(self, requested: ResolutionRequest) -> Response | None:
        """Redirect to an item of the Archive, even if no resolver includes the Archive.

        :returns: None if the resolver must ask all included Archives.
        """
        archive = self._archive
        if not archive.config.local_resolution or self.find_service() is None:
            return None
        try:
            outcome = resolve_locally(archive, requested)
        except NotReady:
            return None
        except Exception:  # the other Archives may still answer
            current_app.logger.exception(
                "the Archive of this app can't resolve %s", requested.wanted.ibi
            )
            return None
        if not isinstance(outcome, Redirect):
            return None
        return redirect_and_count(archive, outcome, requested)


def _removed_response(archive: Archive, item: ItemView, target: str) -> Response:
    """Answer for a removed item: browsers get the tombstone page, programs a list of pairs."""
    if requests.prefers_page():
        response = tombstone(item)
        response.headers["Vary"] = alerts.VARY
        return response
    removed_at = item.record.timestamp
    alert = Alert(
        AlertKind.REMOVED,
        parse_identifier(item.record.identifiers[0]),
        (ArchiveSource(archive.served().service_ibi, archive.config.archive_address),),
        timestamp=None if removed_at is None else f"{removed_at:%Y-%m-%dT%H:%M:%SZ}",
    )
    return alerts.alert_response(alert, resolver_url=find_resolver_url(target))


def count_after_response(response: Response, take: Callable[[], object]) -> None:
    """Count an access after the response was sent, so that the reader does not wait."""
    app: Flask = current_app._get_current_object()  # type: ignore[attr-defined]

    def count() -> None:
        try:
            with app.app_context():  # the catalogue of a host may need it
                take()
        except Exception:  # the response is already sent
            app.logger.exception("an access could not be counted")

    response.call_on_close(count)
