"""Answers of the document registry to the questions of a resolution ([P] 4.4; [R] 6.2).

Each actor with a registration of a document is a source of answers, like an Archive. Only the actor
that has the document decides what its next edition is. Otherwise, anyone who registers a copy could
redirect the readers of the last edition.

The rules of URL lists (:mod:`~flask_ibi_archive.core.protocol.url_list`) create the answers. A
registered document has no files: it lacks every requested file, and the list of files. The answers
have no URL key, so that actors receive no acknowledgments.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from flask_ibi_archive.core.identifiers.grammar import Form, Identifier
from flask_ibi_archive.core.protocol.catalogue_items import CatalogueItem, OwnMetadata, Scope
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.protocol.url_list import ArchiveFacts, ArchiveUrls, answer_url_request
from flask_ibi_archive.core.registry_2008 import DocumentRegistration, MetadataLocation
from flask_ibi_archive.core.resolution.answer import Answer, ArchiveSource, Question
from flask_ibi_archive.core.resolution.persistent_url import find_cited_identifier
from flask_ibi_archive.resolver.registry_2008.tables import find_registrations
from flask_ibi_archive.resolver.tables import Hint

#: The maximum number of registrations of a document that a resolution uses. Anyone can register
#: copies.
MAX_REGISTRATIONS = 32


def list_answers(
    connection: Connection,
    questions: Sequence[Question],
    client_addresses: tuple[str, ...],
    silent: Set[int] = frozenset(),
) -> list[Answer]:
    """Return the answers of the registry: one for each question and actor that has the document.

    :param client_addresses: the IP address of the reader, then the IP addresses of the proxies.
    :param silent: the ids of the Archives that did not answer. If a document was last found in one
        of these Archives, the Archive probably still has it, and the registry gives no answer.
    """
    answers = []
    for question in questions:
        hinted = select(Hint.archive_id).where(Hint.ibi == question.ibi.text)
        if silent and connection.scalar(hinted) in silent:
            continue
        record = find_registrations(connection, question.ibi.text, MAX_REGISTRATIONS)
        for registration in record:
            catalogue = _RecordCatalogue(question.ibi, record, registration)
            answers.append(_create_answer(question, client_addresses, catalogue))
    return answers


@dataclass(frozen=True, slots=True)
class _RecordCatalogue:
    """A catalogue with one document, as one actor has registered it."""

    ibi: Identifier
    record: Sequence[DocumentRegistration]
    registration: DocumentRegistration

    def find(self, ibi: str, scope: Scope) -> CatalogueItem:
        """Return the document as an item."""
        location, following = self.registration.location, None
        next_url = self.record[0].location.next_edition_url
        if next_url is not None:
            cited = find_cited_identifier(next_url)
            following = _create_item(cited, next_url, scope, None if cited else State.COPY.value)
        return _create_item(
            self.ibi,
            location.url,
            scope,
            (State.ORIGINAL if self.registration.is_original else State.COPY).value,
            timestamp=location.updated_at,
            # without a URL of the document at any actor, the metadata replace it
            shows_metadata=all(one.location.url is None for one in self.record),
            described_by=_create_metadata(location.metadata),
            following=following,
        )


def _create_item(
    ibi: Identifier | None, url: str | None, scope: Scope, state: str | None, **values: Any
) -> CatalogueItem:
    """Return an item whose only file is its URL. Nobody may read an item without a URL.

    :param state: None for an item of which only the IBI is known.
    """
    is_rep = ibi is not None and ibi.form is Form.REP
    text = None if ibi is None else ibi.text
    return CatalogueItem(
        0,
        state,
        text if is_rep else None,
        None if is_rep else text,
        networks=() if url is None else None,
        files={} if url is None else {"": url},
        target_path=None if url is None else "",
        scope=scope,
        **values,
    )


def _create_metadata(metadata: Sequence[MetadataLocation]) -> OwnMetadata | None:
    """Return the metadata of a document. Those in free form are the first without a format."""
    if not metadata:
        return None
    free = next((one for one in metadata if one.format is None), metadata[0])
    # reversed: of several metadata with the same format, the first ones count
    formats = {one.format: one.url for one in reversed(metadata) if one.format is not None}
    return OwnMetadata(free.url, formats, free.updated_at)


def _create_answer(
    question: Question, client_addresses: tuple[str, ...], catalogue: _RecordCatalogue
) -> Answer:
    """Return the answer of an actor to a question."""
    address = catalogue.registration.address
    pairs = answer_url_request(
        catalogue,
        question.create_request(client_addresses),
        ArchiveFacts(address, (), ArchiveUrls(f"http://{address}"), filter_url_list=False),
        lambda item: "",  # without a URL key, actors receive no acknowledgments
        requested_only=True,
    )
    # pairs without a value are left out, such as the URL key; an actor has no list of files, so
    # that a request for the list gets no URL
    found = {
        name: (value,) if isinstance(value, str) else value
        for name, value in pairs
        if value and not (question.verbs.file_list and name.startswith("url"))
    }
    source = ArchiveSource(catalogue.registration.actor_id, address, is_actor=True)
    return Answer(source, question, found)
