"""The requests of actors and the record of a document, as dataclasses.

``repr`` never shows a password, because it must not appear in a log.

Source: [P] 4.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

#: The maximum length of a URL in the registry, in characters. A database index contains the URLs.
MAX_URL = 2048


@dataclass(frozen=True, slots=True)
class Credentials:
    """The identifier and the password that an actor sends with each request.

    :param actor_id: the IBI of the actor in canonical case.
    """

    actor_id: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class MetadataLocation:
    """The place of one metadata file of a document.

    :param url: an absolute http or https URL in ASCII.
    :param updated_at: the date of the last change, in UTC.
    :param format: the name of the format, such as ``oai_dc``. None if unknown.
    :param language: the language, ``xx`` or ``xx-YY``. None if unknown.
    """

    url: str
    updated_at: datetime
    format: str | None = None
    language: str | None = None


@dataclass(frozen=True, slots=True)
class DocumentLocation:
    """The places where an actor has a document, its metadata and its other editions.

    A location has at least one of the document's URL and the URL of metadata ([P] 4.4, note 3).

    :param url: the URL of the document. None if the actor only has metadata.
    :param updated_at: the date of the last change of the document, in UTC. None without a URL.
    :param metadata: the metadata, in the order of the request.
    :param previous_edition_url: the URL of the previous edition, or None.
    :param next_edition_url: the URL of the next edition, or None.
    """

    url: str | None = None
    updated_at: datetime | None = None
    metadata: tuple[MetadataLocation, ...] = ()
    previous_edition_url: str | None = None
    next_edition_url: str | None = None


# --- the requests --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RegisterActor:
    """A data provider asks for its registration ([P] 4.1).

    :param computer_name: the first part of the host name, such as ``hermes``.
    :param ip: the IP address of the host, as canonical text.
    :param domain_name: the other parts of the host name, such as ``dpi.inpe.br``.
    :param actor_id: the IBI that the actor chose, in canonical case. None: the resolver mints one.
    """

    computer_name: str
    ip: str
    domain_name: str
    port: int
    email: str
    password: str = field(repr=False)
    actor_id: str | None = None

    @property
    def host(self) -> str:
        """The complete host name, in lower case."""
        return f"{self.computer_name}.{self.domain_name}".lower()


@dataclass(frozen=True, slots=True)
class ChangePassword:
    """An actor replaces its password ([P] 4.2)."""

    credentials: Credentials
    new_password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ChangeEMailAddress:
    """An actor replaces its e-mail address ([P] 4.3)."""

    credentials: Credentials
    new_email: str


@dataclass(frozen=True, slots=True)
class RegisterDocument:
    """An actor registers a document, or replaces its earlier registration ([P] 4.4).

    :param document_id: the IBI of the document in canonical case. None: the resolver mints one.
    :param is_original: True if the actor holds the copyright of the document.
    """

    credentials: Credentials
    location: DocumentLocation
    document_id: str | None = None
    is_original: bool = False


@dataclass(frozen=True, slots=True)
class ChangeActor:
    """An actor hands its registration of a document over to another actor ([P] 4.5)."""

    credentials: Credentials
    document_id: str
    new_actor_id: str


@dataclass(frozen=True, slots=True)
class DeleteDocumentRegistration:
    """An actor deletes its registration of a document ([P] 4.6)."""

    credentials: Credentials
    document_id: str


@dataclass(frozen=True, slots=True)
class DisplayIDRegistration:
    """An actor asks for the record of a document ([P] 4.7)."""

    credentials: Credentials
    document_id: str


RegistryRequest: TypeAlias = (
    RegisterActor
    | ChangePassword
    | ChangeEMailAddress
    | RegisterDocument
    | ChangeActor
    | DeleteDocumentRegistration
    | DisplayIDRegistration
)


# --- the record of a document --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DocumentRegistration:
    """The registration of a document by one actor.

    :param is_copy: False if the actor has the document, True if the actor has a copy.
    :param is_original: True if the actor holds the copyright. A copy is never the original.
    """

    actor_id: str
    is_copy: bool
    is_original: bool
    location: DocumentLocation


@dataclass(frozen=True, slots=True)
class DocumentRecord:
    """All registrations of one document ([P] 4.7).

    :param registrations: the registration of the document, then the copies in the order of their
        registration.
    """

    document_id: str
    registrations: tuple[DocumentRegistration, ...]
