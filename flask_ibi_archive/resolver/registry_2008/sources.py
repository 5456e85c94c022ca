"""Answers of the document registry to the questions of a resolution ([P] 4.4; [R] 6.2).

Each actor with a registration of a document is a source of answers, like an Archive. One statement
reads the registrations. Only the holder of a document decides what its next edition is. Otherwise,
anyone who registers a copy could redirect the readers of the last edition.

The rules of URL lists (:mod:`~flask_ibi_archive.core.protocol.url_list`) create the answers. A
registered document has no files: it lacks every requested file, and the list of files. The answers
have no URL key, so that actors receive no acknowledgments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, bindparam, case, func, or_, select
from sqlalchemy.orm import aliased

from flask_ibi_archive.core.identifiers import Form, parse_identifier
from flask_ibi_archive.core.protocol.archive_urls import ArchiveFacts, ArchiveUrls
from flask_ibi_archive.core.protocol.catalogue import CatalogueItem, Scope
from flask_ibi_archive.core.protocol.registry_2008.model import DocumentLocation, MetadataLocation
from flask_ibi_archive.core.protocol.relations import StepKind
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.protocol.url_list import build_url_list
from flask_ibi_archive.core.resolution.answer import Answer, ArchiveSource, Question
from flask_ibi_archive.resolver.registry_2008.rows import METADATA_COLUMNS, list_metadata
from flask_ibi_archive.resolver.registry_2008.tables import (
    ADDRESS,
    Actor,
    Document,
    RegisteredMetadata,
    Registration,
)
from flask_ibi_archive.resolver.tables import Hint

#: Maximum number of registrations of a document that a resolution uses. Anyone can register copies.
MAX_REGISTRATIONS = 32


@dataclass(frozen=True, slots=True)
class RegisteredLocation:
    """The URLs of a document at one actor, as a resolution needs them.

    :param source: the actor.
    :param state: Original or Copy.
    """

    source: ArchiveSource
    state: str
    location: DocumentLocation


@dataclass(slots=True)
class StoredDocument:
    """The registrations of a document, and its next edition.

    :param next_edition: the IBI of the next edition. None if unknown.
    :param next_edition_url: the URL of the next edition. None if unknown.
    :param registrations: the registration of the holder, then the copies in the order of their
        registration.
    """

    next_edition: str | None = None
    next_edition_url: str | None = None
    registrations: list[RegisteredLocation] = field(default_factory=list)

    @property
    def has_url(self) -> bool:
        """True if an actor has the URL of the document; False if all actors have only metadata."""
        return any(registration.location.url is not None for registration in self.registrations)


def _create_statement(with_editions: bool) -> Any:
    """Return the statement that reads the registrations of some documents.

    The parameter ``ibis`` contains the documents. The parameter ``described`` contains the
    documents whose metadata are needed even if the URL of the document is known.
    """
    is_holder = Registration.actor_id == Document.holder_id
    rank = func.row_number().over(
        partition_by=Document.id,
        order_by=(
            case((is_holder, 0), (Registration.url.is_not(None), 1), else_=2),
            Registration.id,
        ),
    )
    found = (
        select(
            Document.id.label("document"),
            Document.document_id.label("ibi"),
            Document.holder_id,
            Document.is_original,
            is_holder.label("is_holder"),
            Registration.id,
            Registration.actor_id,
            Registration.url,
            Registration.updated_at,
            Registration.next_edition_url,
            Registration.next_edition_ibi,
            rank.label("rank"),
        )
        .join(Registration, Registration.document_id == Document.id)
        .where(Document.document_id.in_(bindparam("ibis", expanding=True)))
        .subquery()
    )
    described = or_(found.c.url.is_(None), found.c.ibi.in_(bindparam("described", expanding=True)))
    columns = [
        found.c.id,
        found.c.ibi,
        case((found.c.is_holder, found.c.is_original), else_=False).label("is_original"),
        found.c.url,
        found.c.updated_at,
        Actor.actor_id,
        ADDRESS,
        Hint.archive_id.label("archive_id"),
        *METADATA_COLUMNS,
    ]
    if with_editions:
        columns += _create_edition_columns(found.c)
    return (
        select(*columns)
        .select_from(found)
        .join(Actor, Actor.id == found.c.actor_id)
        .outerjoin(Hint, Hint.ibi == found.c.ibi)
        .outerjoin(
            RegisteredMetadata, and_(RegisteredMetadata.registration_id == found.c.id, described)
        )
        .where(found.c.rank <= MAX_REGISTRATIONS)
        .order_by(found.c.is_holder.desc(), found.c.id, RegisteredMetadata.number)
    )


def _create_edition_columns(found: Any) -> list[Any]:
    """Return the IBI and the URL of the next edition that the holder of a document states.

    The holder may state the next edition of this document, or the previous edition of a later
    document. A URL means a registered document only if this document has the same holder: anyone
    can register a document with any URL.
    """
    later, registration = aliased(Document), aliased(Registration)
    others = (
        select(later.document_id)
        .join(registration, registration.document_id == later.id)
        # "+ 0": an actor may have many documents, so that the index of the actors is slower
        .where(registration.actor_id + 0 == found.holder_id, later.id != found.document)
        .limit(1)
        .correlate(found.document.table)
    )
    by_url = others.where(
        later.holder_id + 0 == found.holder_id, registration.url == found.next_edition_url
    ).order_by(registration.id)
    by_previous = others.where(
        or_(
            registration.previous_edition_ibi == found.ibi,
            registration.previous_edition_url == found.url,
        )
    ).order_by(registration.id.desc())
    ibi = case(
        (found.next_edition_ibi.is_not(None), found.next_edition_ibi),
        (found.next_edition_url.is_not(None), by_url.scalar_subquery()),
        else_=by_previous.scalar_subquery(),
    )
    # only the first row of the holder is used; this condition saves the queries for all other rows
    is_first = func.coalesce(RegisteredMetadata.number, 1) == 1
    return [
        case((and_(found.is_holder, is_first), ibi)).label("next_edition_ibi"),
        found.next_edition_url,
    ]


_STATEMENTS = {with_editions: _create_statement(with_editions) for with_editions in (False, True)}


def _has_step(question: Question, kind: StepKind) -> bool:
    return any(step.kind is kind for step in question.verbs.relation.steps)


def read_documents(
    connection: Connection, questions: Sequence[Question], silent: Set[int] = frozenset()
) -> dict[str, StoredDocument]:
    """Return the registered documents to which some questions refer, by their IBI.

    The function executes one statement. The statement reads the metadata or the next edition of a
    document only if a question needs them.

    :param silent: the ids of the Archives that did not answer. A document that was last found in
        one of these Archives is left out.
    """
    with_editions = any(_has_step(question, StepKind.LAST_EDITION) for question in questions)
    described = {
        question.ibi.text for question in questions if _has_step(question, StepKind.METADATA)
    }
    parameters = {
        "ibis": list({question.ibi.text for question in questions}),
        "described": list(described),
    }
    groups: dict[int, list[Any]] = {}
    for row in connection.execute(_STATEMENTS[with_editions], parameters):
        if row.archive_id not in silent:
            groups.setdefault(row.id, []).append(row)
    found: dict[str, StoredDocument] = {}
    for rows in groups.values():
        first = rows[0]
        if first.ibi not in found:
            edition = (first.next_edition_ibi, first.next_edition_url) if with_editions else ()
            found[first.ibi] = StoredDocument(*edition)
        found[first.ibi].registrations.append(_create_registration(rows))
    return found


def _create_registration(rows: Sequence[Any]) -> RegisteredLocation:
    """Return the registration in some rows. Each row contains one URL of metadata or none."""
    first = rows[0]
    return RegisteredLocation(
        ArchiveSource(first.actor_id, first.address, is_actor=True),
        (State.ORIGINAL if first.is_original else State.COPY).value,
        DocumentLocation(first.url, first.updated_at, list_metadata(rows)),
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

    :param state: Original or Copy. None for an item of which only the IBI is known.
    :param url: the URL of the item, which is stored as a file without a path. If the URL is None,
        nobody may read the item. Then the URL of the metadata replaces the URL of the item.
    :param values: other fields of :class:`CatalogueItem`.
    """
    is_rep = ibi is not None and parse_identifier(ibi).form is Form.REP
    return CatalogueItem(
        0,
        state,
        ibi if is_rep else None,
        None if is_rep else ibi,
        timestamp=updated_at,
        networks=() if url is None else None,
        files={} if url is None else {"": url},
        target_path=None if url is None else "",
        shows_metadata=shows_metadata,
        scope=scope,
        **values,
    )


def _create_metadata(registration: RegisteredLocation, scope: Scope) -> CatalogueItem | None:
    """Return the metadata of a registration, with a translation for each language.

    The metadata in free form are the metadata without a format. If all metadata have a format, the
    first metadata are also the metadata in free form.
    """
    locations = registration.location.metadata
    groups: dict[str | None, list[MetadataLocation]] = {}
    for location in sorted(locations, key=lambda each: each.format is not None):
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
            # reversed: of several metadata with the same format, the first ones count
            formats={entry.format: entry.url for entry in reversed([*formats]) if entry.format},
        )

    languages = {language: create(group, group) for language, group in groups.items() if language}
    for item in languages.values():
        item.members = languages
    first = next(iter(groups.values()))
    # a question without a language also accepts a format that exists only in another language
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
        )


def list_answers(
    connection: Connection,
    questions: Sequence[Question],
    client_addresses: tuple[str, ...],
    silent: Set[int] = frozenset(),
) -> list[Answer]:
    """Return the answers of the registry to the questions of a round.

    For each question, there is one answer for each actor that has the document. The function
    executes one statement.

    :param client_addresses: the IP address of the reader, then the IP addresses of the proxies.
    :param silent: the ids of the Archives that did not answer. If a document was last found in one
        of these Archives, the Archive probably still has it. Then the registry gives no answer, so
        that nobody can replace the item of an Archive while the Archive is silent.
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
    """Return the answer of an actor to a question about a document.

    :param registration: the registration of the document by this actor.
    """
    address = registration.source.address
    pairs = build_url_list(
        _RegistrationCatalogue(document, registration),
        question.create_request(client_addresses),
        ArchiveFacts(address, (), ArchiveUrls(f"http://{address}")),
        lambda item: "",  # without a URL key, actors receive no acknowledgments
        requested_only=True,
    )
    # pairs without a value are left out, such as the URL key; an actor has no list of files, so
    # that a request for the list gets no URL
    return Answer(
        registration.source,
        question,
        {
            name: (value,) if isinstance(value, str) else value
            for name, value in pairs
            if value and not (question.verbs.file_list and name.startswith("url"))
        },
    )
