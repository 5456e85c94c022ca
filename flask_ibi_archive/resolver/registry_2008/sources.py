"""Answers of the document registry to the questions of a resolution ([P] 4.4; [R] 6.2).

Each actor with a registration of a document is a source of answers, like an Archive. The rules of
URL lists (:mod:`~flask_ibi_archive.core.protocol.url_list`) create these answers. A registered
document has no files: it lacks every requested file, and the list of files. The answers have no URL
key, so that actors receive no acknowledgments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from flask_ibi_archive.core.identifiers import Form, parse_identifier
from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.core.protocol.archive_urls import ArchiveFacts, ArchiveUrls
from flask_ibi_archive.core.protocol.catalogue import CatalogueItem, Scope
from flask_ibi_archive.core.protocol.registry_2008.model import MetadataLocation
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.protocol.url_list import build_url_list
from flask_ibi_archive.core.resolution.answer import Answer, Question
from flask_ibi_archive.resolver.registry_2008.source_rows import (
    RegisteredLocation,
    StoredDocument,
    read_documents,
)


def _create_item(
    state: str | None,
    url: str | None,
    scope: Scope,
    updated_at: datetime | None = None,
    ibi: str | None = None,
    shows_metadata: bool = False,
    **values: Any,
) -> CatalogueItem:
    """Return a document, one of its metadata or its next edition, for the rules of URL lists.

    :param url: the URL of the item, which is a file without a path; None if unknown. Then nobody
        may read the item, so that the metadata may replace it.
    """
    is_rep = ibi is not None and parse_identifier(ibi).form is Form.REP
    return CatalogueItem(
        0,
        state,
        ibi if is_rep else None,
        None if is_rep else ibi,
        timestamp=format_timestamp(updated_at) or "",
        networks=() if url is None else None,
        files={} if url is None else {"": url},
        target_path=None if url is None else "",
        shows_metadata=shows_metadata,
        scope=scope,
        **values,
    )


def _create_metadata(registration: RegisteredLocation, scope: Scope) -> CatalogueItem | None:
    """Return the metadata of a registration, with a translation for each language.

    The metadata without a format are the metadata in free form. If there are none, the first
    metadata are.
    """
    locations = registration.location.metadata
    groups: dict[str | None, list[MetadataLocation]] = {}
    for location in sorted(locations, key=lambda one: one.format is not None):
        groups.setdefault(location.language, []).append(location)
    if not groups:
        return None

    def create(
        group: Sequence[MetadataLocation], formats: Iterable[MetadataLocation]
    ) -> CatalogueItem:
        free = group[0]
        return _create_item(
            registration.state,
            free.url,
            scope,
            free.updated_at,
            content_type="Metadata",
            language=free.language,
            formats={one.format: one.url for one in reversed([*formats]) if one.format},
        )

    languages = {language: create(group, group) for language, group in groups.items() if language}
    for item in languages.values():
        item.members = languages
    first = next(iter(groups.values()))
    # a format that exists only in another language is still an answer to a question without one
    found = create(first, [*first, *locations])
    found.members = languages
    return found


@dataclass(frozen=True, slots=True)
class _RegistrationCatalogue:
    """A catalogue with one document, as one actor has registered it."""

    document: StoredDocument
    registration: RegisteredLocation

    def find(self, ibi: str, scope: Scope) -> CatalogueItem:
        """Return the document as an item."""
        document, location = self.document, self.registration.location
        following = None
        if document.next_edition is not None:
            following = _create_item(None, None, scope, ibi=document.next_edition)
        elif document.next_edition_url is not None:
            following = _create_item(State.COPY, document.next_edition_url, scope)
        return _create_item(
            self.registration.state,
            location.url,
            scope,
            location.updated_at,
            ibi,
            shows_metadata=not document.has_url,
            described_by=_create_metadata(self.registration, scope),
            following=following,
            later=[following] if following else [],
        )


def list_answers(
    connection: Connection,
    questions: Sequence[Question],
    client_addresses: tuple[str, ...],
    silent: Set[int] = frozenset(),
) -> list[Answer]:
    """Return the answers of the registry to the questions of a round, one for each actor.

    The function executes one statement.

    :param client_addresses: the IP address of the reader, then the IP addresses of the proxies.
    :param silent: the ids of the Archives that did not answer the questions. There is no answer
        about a document that was last found in one of them.
    :returns: for each question, the answer of the document's holder, then the answers of the actors
        that have copies, in the order of their registration.
    """
    documents = read_documents(connection, questions, silent)
    return [
        _create_answer(question, client_addresses, document, registration)
        for question in questions
        if (document := documents.get(question.ibi.text)) is not None
        for registration in document.registrations
    ]


def _create_answer(
    question: Question,
    client_addresses: tuple[str, ...],
    document: StoredDocument,
    registration: RegisteredLocation,
) -> Answer:
    address = registration.source.address
    pairs = build_url_list(
        _RegistrationCatalogue(document, registration),
        question.create_request(client_addresses),
        ArchiveFacts(address, (), ArchiveUrls(f"http://{address}")),
        lambda item: "",
        requested_only=True,
    )
    return Answer(
        registration.source,
        question,
        {
            name: (value,) if isinstance(value, str) else value
            for name, value in pairs
            if value and not (question.verbs.file_list and name.startswith("url"))
        },
    )
