"""Answers of the document registry to the questions of a resolution ([P] 4.4; [R] 6.2).

Each actor with a registration of a document is a source of answers, like an Archive. The rules of
URL lists (:mod:`~flask_ibi_archive.protocol.url_list`) create these answers. A registered document
has no files: it lacks every requested file, and the list of files. The answers have no URL key, so
that actors receive no acknowledgments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import Connection

from flask_ibi_archive.identifiers import Form, Identifier, parse_identifier
from flask_ibi_archive.protocol.archive_facts import ArchiveFacts
from flask_ibi_archive.protocol.archive_urls import ArchiveUrls
from flask_ibi_archive.protocol.catalogue import CatalogueItem, File, Scope, choose_last_edition
from flask_ibi_archive.protocol.document_registry import MetadataLocation
from flask_ibi_archive.protocol.states import State
from flask_ibi_archive.protocol.timestamps import format_timestamp
from flask_ibi_archive.protocol.url_list import build_url_list
from flask_ibi_archive.resolution.answer import Answer, Question
from flask_ibi_archive.resolver.document_registry.source_rows import (
    RegisteredLocation,
    StoredDocument,
    read_documents,
)


@dataclass(eq=False)
class RegisteredItem:
    """A document, one of its metadata or its next edition, for the rules of URL lists.

    The fields are the properties of :class:`~flask_ibi_archive.protocol.catalogue.CatalogueItem`.

    :param url: the URL of the item; None if unknown.
    :param is_whole: False if the request contains the path of a file. A document has no files.
    :param description: the metadata of the item.
    :param following: the next edition of the item.
    :param languages: the item and its translations, by language.
    """

    state: str | None
    url: str | None = None
    updated_at: datetime | None = None
    ibi: Identifier | None = None
    content_type: str = "Data"
    language: str | None = None
    formats: Mapping[str, str] = field(default_factory=dict)
    shows_metadata: bool = False
    is_whole: bool = True
    description: RegisteredItem | None = None
    following: RegisteredItem | None = None
    languages: Mapping[str, RegisteredItem] = field(default_factory=dict)
    key = 0
    is_service = False

    @property
    def rep(self) -> str | None:
        """The repository name of the item, or None."""
        return self.ibi.text if self.ibi and self.ibi.form is Form.REP else None

    @property
    def ibip(self) -> str | None:
        """The IBIp or the legacy identifier of the item, or None."""
        return self.ibi.text if self.ibi and self.ibi.form is not Form.REP else None

    @property
    def timestamp(self) -> str:
        """The date of the last change; "" if unknown."""
        return format_timestamp(self.updated_at) or ""

    def allows(self, address: str) -> bool:
        """Return True if the URL of the item is known. Otherwise, the metadata may replace it."""
        return self.url is not None

    def file(self) -> File | None:
        """Return the item as a file without a path; None if the request contains a path."""
        return self.target() if self.is_whole else None

    def target(self) -> File | None:
        """Return the item as a file without a path; None if its URL is unknown."""
        return None if self.url is None else File("", self.url)

    def metadata(self) -> RegisteredItem | None:
        """Return the metadata of the item; None if the actor has no metadata."""
        return self.description

    def next_edition(self) -> RegisteredItem | None:
        """Return the next edition; None if unknown."""
        return self.following

    def last_edition(self) -> RegisteredItem | None:
        """Return the last edition; None if only the IBI of the next edition is known."""
        return choose_last_edition(self, [self.following] if self.following else [], Scope())

    def translations(self) -> Mapping[str, RegisteredItem]:
        """Return the item and its translations, by language."""
        return self.languages


def _create_metadata(registration: RegisteredLocation, is_whole: bool) -> RegisteredItem | None:
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
    ) -> RegisteredItem:
        free = group[0]
        return RegisteredItem(
            registration.state,
            free.url,
            free.updated_at,
            content_type="Metadata",
            language=free.language,
            formats={one.format: one.url for one in reversed([*formats]) if one.format},
            is_whole=is_whole,
        )

    languages = {language: create(group, group) for language, group in groups.items() if language}
    for item in languages.values():
        item.languages = languages
    first = next(iter(groups.values()))
    # a format that exists only in another language is still an answer to a question without one
    found = create(first, [*first, *locations])
    found.languages = languages
    return found


@dataclass(frozen=True, slots=True)
class _RegistrationCatalogue:
    """A catalogue with one document, as one actor has registered it."""

    document: StoredDocument
    registration: RegisteredLocation

    def find(self, ibi: str, scope: Scope) -> CatalogueItem:
        """Return the document as an item."""
        document, location = self.document, self.registration.location
        is_whole = not scope.paths
        following = None
        if document.next_edition is not None:
            following = RegisteredItem(None, ibi=parse_identifier(document.next_edition))
        elif document.next_edition_url is not None:
            following = RegisteredItem(
                State.COPY.value, document.next_edition_url, is_whole=is_whole
            )
        return RegisteredItem(
            self.registration.state,
            location.url,
            location.updated_at,
            parse_identifier(ibi),
            shows_metadata=not document.has_url,
            is_whole=is_whole,
            description=_create_metadata(self.registration, is_whole),
            following=following,
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
