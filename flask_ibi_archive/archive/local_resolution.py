"""Persistent URLs that an Archive answers itself, as the resolver would, unless they lead
elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from flask_ibi_archive.archive.archive_service import ArchiveService
from flask_ibi_archive.archive.viewing import ItemView
from flask_ibi_archive.identifiers import Identifier
from flask_ibi_archive.protocol.pairs import encode_word
from flask_ibi_archive.protocol.query import decode_url
from flask_ibi_archive.resolution.alternatives import AlternativesSearch
from flask_ibi_archive.resolution.answer import Answer, ArchiveSource, Question
from flask_ibi_archive.resolution.choice import Analysis
from flask_ibi_archive.resolution.languages import LanguageRange
from flask_ibi_archive.resolution.outcome import Alert, AlertKind, Redirect
from flask_ibi_archive.resolution.persistent_url import PersistentUrl
from flask_ibi_archive.storage.copies import Copies
from flask_ibi_archive.storage.states import State

#: Rounds of questions at most ([R] 6.2).
MAX_ROUNDS = 16


@dataclass(frozen=True, slots=True)
class RemoteStub:
    """What is asked for is not here; the resolver may find it.

    :param is_known: whether the item that was asked for is here, and only what it leads to is not.
    """

    is_known: bool


@dataclass(frozen=True, slots=True)
class Removed:
    """The item was an Original of this Archive and was removed."""

    item: ItemView


Outcome = Redirect | RemoteStub | Removed | Alert


def resolve_here(
    archive: ArchiveService,
    wanted: PersistentUrl,
    ranges: Sequence[LanguageRange],
    client_addresses: tuple[str, ...],
) -> Outcome:
    """Return what a persistent URL leads to, by the answers of one Archive alone, one statement a
    question.

    :param ranges: the languages that the reader prefers.
    :returns: an alert where the answers go round in circles or too far, and where an item that is
        here has not what is asked of it.
    :raises NotReady: if the database does not answer.
    ArchiveSource: [R] 6.2.
    """
    source = ArchiveSource(
        archive.served().service_ibi, archive.config.archive_address, is_own=True
    )
    analysis = Analysis(wanted, ranges, MAX_ROUNDS)
    is_known = False
    all_asked: list[Identifier] = []
    while True:
        asked = analysis.questions
        all_asked += [question.ibi for question in asked]
        is_here = True
        removed = None
        for question in asked:
            pairs = _ask(archive, question, client_addresses)
            redirect = analysis.add_answer(Answer(source, question, pairs))
            if redirect is not None:
                return redirect
            if pairs.get("state") == (State.DELETED.value,):
                removed = _find_removed(archive, question.ibi)
                is_here = is_here and removed is not None
            is_here = is_here and bool(pairs)
            is_known = is_known or bool(pairs)
        if not is_here:
            # another Archive may have what this one, left alone, would find something else for
            return RemoteStub(is_known)
        outcome = analysis.finish_round(asked=1)
        if isinstance(outcome, Redirect):
            return outcome
        if isinstance(outcome, Alert):
            break
    if outcome.kind in (AlertKind.LOOP, AlertKind.TOO_LONG):
        return outcome
    if removed is not None:
        return Removed(removed)
    if wanted.requires_original or any(_is_copy(archive, ibi) for ibi in all_asked):
        return RemoteStub(True)
    survey = AlternativesSearch(outcome)
    for question in survey.questions:
        survey.add_answer(Answer(source, question, _ask(archive, question, client_addresses)))
    return survey.finish_round()


def _ask(
    archive: ArchiveService, question: Question, client_addresses: tuple[str, ...]
) -> dict[str, tuple[str, ...]]:
    """Return the answer to a question, read and written as it would be by way of the network."""
    request = question.create_request(client_addresses)
    request = replace(request, filepath=decode_url(request.filepath))
    return {
        name: tuple(
            [encode_word(word) for word in ((value,) if isinstance(value, str) else value) if word]
        )
        for name, value in archive.list_urls(request)
    }


def _is_copy(archive: ArchiveService, ibi: Identifier) -> bool:
    """Tell whether an item is a Copy here: its Original may have more."""
    item = archive.view(ibi.text)
    return item is not None and item.record.state == State.COPY.value


def _find_removed(archive: ArchiveService, ibi: Identifier) -> ItemView | None:
    """Return an item that was removed for good; None: it may live on in another Archive."""
    item = archive.view(ibi.text)
    if item is None or item.record.state != State.DELETED.value:
        return None
    tombstone = item.record.tombstone
    if tombstone is not None and tombstone.original_archive is not None:
        return None
    with archive.database.reading() as connection:
        copies = Copies(connection, archive.served().id)
        lives = copies.originals_elsewhere(item.record.identifiers)
    return None if lives else item
