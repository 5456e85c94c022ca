"""Resolve persistent URLs with the answers of one Archive, with the same result as a resolver.

An Archive uses this module for the persistent URLs on its own host. A resolver in the same app uses
this module, too. The module asks the Archive in the same process, without HTTP requests.

Another Archive may have more information about
an item. In this case the outcome is :class:`NotHere`, and the resolver must resolve the URL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from flask_ibi_archive.archive.items.identifiers import Copies
from flask_ibi_archive.core.identifiers import Identifier
from flask_ibi_archive.core.protocol.languages import LanguageRange
from flask_ibi_archive.core.protocol.messages import Acknowledgment
from flask_ibi_archive.core.protocol.pairs import encode_word
from flask_ibi_archive.core.protocol.query import decode_url
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records.item_view import ItemView
from flask_ibi_archive.core.resolution.answer import Answer, ArchiveSource, Question
from flask_ibi_archive.core.resolution.choice import Analysis
from flask_ibi_archive.core.resolution.outcome import Alert, AlertKind, AlternativesSearch, Redirect
from flask_ibi_archive.core.resolution.persistent_url import PersistentUrl

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive


@dataclass(frozen=True, slots=True)
class NotHere:
    """This Archive cannot resolve the persistent URL; only the resolver can.

    :param is_known: True if this Archive has at least one of the requested items.
    """

    is_known: bool


@dataclass(frozen=True, slots=True)
class Removed:
    """The item is an Original of this Archive that was removed."""

    item: ItemView


LocalOutcome = Redirect | NotHere | Removed | Alert


def resolve_locally(
    archive: Archive,
    wanted: PersistentUrl,
    ranges: Sequence[LanguageRange],
    client_addresses: tuple[str, ...],
) -> LocalOutcome:
    """Resolve a persistent URL with the answers of one Archive.

    :param ranges: the languages that the reader prefers.
    :param client_addresses: the IP addresses of the reader, then of the proxies.
    :returns: a redirect; or NotHere or Removed; or an alert. There is an alert in three cases: the
        resolution returns to an earlier item, the resolution needs too many rounds, or an item of
        this Archive does not have the requested part.
    :raises NotReady: if the database does not respond.
    Source: [R] 6.2.
    """
    return _LocalResolution(archive, wanted, ranges, client_addresses).run()


@dataclass
class _LocalResolution:
    """The state of one resolution with a single Archive.

    :param asked: the identifiers of all items that the Archive was asked about.
    :param is_known: True if the Archive has at least one of these items.
    :param removed: the removed item of the current round; None if there is no removed item.
    """

    archive: Archive
    wanted: PersistentUrl
    ranges: Sequence[LanguageRange]
    client_addresses: tuple[str, ...]
    asked: list[Identifier] = field(default_factory=list)
    is_known: bool = False
    removed: ItemView | None = None

    def __post_init__(self) -> None:
        service = self.archive.served().service_ibi
        self.source = ArchiveSource(service, self.archive.config.archive_address, is_own=True)
        self.analysis = Analysis(self.wanted, self.ranges)

    def run(self) -> LocalOutcome:
        """Ask the questions of each round until there is an outcome, and return the outcome."""
        while True:
            outcome = self._run_round() or self.analysis.finish_round(asked=1)
            if isinstance(outcome, Redirect | NotHere):
                return outcome
            if isinstance(outcome, Alert):
                return self._complete(outcome)

    def _run_round(self) -> Redirect | NotHere | None:
        is_here = True
        self.removed = None
        for question in self.analysis.questions:
            self.asked.append(question.ibi)
            answer = self._ask(question)
            redirect = self.analysis.add_answer(answer)
            if redirect is not None:
                return redirect
            if answer.pairs.get("state") == (State.DELETED.value,):
                self.removed = _find_removed(self.archive, question.ibi)
                is_here = is_here and self.removed is not None
            is_here = is_here and bool(answer.pairs)
            self.is_known = self.is_known or bool(answer.pairs)
        # Another Archive may have a translation of the item. Without this check, the reader would
        # get the item in its own language instead.
        return None if is_here else NotHere(self.is_known)

    def _complete(self, alert: Alert) -> LocalOutcome:
        """Return the outcome for an alert; NotHere if another Archive may have more information."""
        if alert.kind in (AlertKind.LOOP, AlertKind.TOO_LONG):
            return alert
        if self.removed is not None and alert.kind is AlertKind.REMOVED:
            return Removed(self.removed)
        if self.wanted.requires_original or any(_is_copy(self.archive, ibi) for ibi in self.asked):
            return NotHere(True)
        search = AlternativesSearch(alert)
        for question in search.questions:
            search.add_answer(self._ask(question))
        return search.finish_round()

    def _ask(self, question: Question) -> Answer:
        pairs = answer_question(self.archive, question, self.client_addresses)
        return Answer(self.source, question, pairs)


def answer_question(
    archive: Archive, question: Question, client_addresses: tuple[str, ...]
) -> Mapping[str, tuple[str, ...]]:
    """Return the pairs that a resolver would read from the HTTP response of the Archive.

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
    redirect: Redirect, client_addresses: tuple[str, ...], persistent_url: str
) -> Acknowledgment | None:
    """Return the acknowledgment that the Archive would read from the HTTP request of a resolver.

    :param persistent_url: the URL that the reader requested, with host and port.
    :returns: the acknowledgment; None if the answer that led to the redirect has no URL key.
    """
    sent = redirect.create_acknowledgment(client_addresses, persistent_url)
    if sent is None:
        return None
    return replace(sent, url=decode_url(redirect.url), persistent_url=decode_url(persistent_url))


def _is_copy(archive: Archive, ibi: Identifier) -> bool:
    """Return whether this Archive has only a Copy of an item.

    The Original of a Copy may have more parts.
    """
    item = archive.get(ibi.text)
    return item is not None and item.record.state == State.COPY.value


def _find_removed(archive: Archive, ibi: Identifier) -> ItemView | None:
    """Return an item that was removed; None if the item exists or another Archive may have it."""
    item = archive.get(ibi.text)
    if item is None or item.record.state != State.DELETED.value:
        return None
    tombstone = item.record.tombstone
    if tombstone is not None and tombstone.original_archive is not None:
        return None
    with archive.database.reading() as connection:
        copies = Copies(connection, archive.served().id)
        lives = copies.find_originals_elsewhere(item.record.identifiers)
    return None if lives else item
