"""The Archives of a resolver: registered by its administrator, included and excluded at their own
request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from flask_ibi_archive.archive.transport import INTERNAL, HttpResponse, fetch
from flask_ibi_archive.errors import (
    AlreadyRegistered,
    InternalArchive,
    PeerProtocolError,
    RegistrationOvertaken,
    RegistrationRefused,
    TooManyWrongKeys,
    TransportError,
    UnknownArchive,
)
from flask_ibi_archive.identifiers import parse_identifier
from flask_ibi_archive.protocol.inclusion import (
    CONFIRMATIONS,
    EXCLUSION_REQUEST,
    INCLUSION_REQUEST,
    RESULTS,
    InclusionConfirmationRequest,
    RegistrationRequest,
    RegistrationStatus,
)
from flask_ibi_archive.protocol.messages import format_request
from flask_ibi_archive.protocol.pairs import parse_pairs
from flask_ibi_archive.protocol.registration import build_confirmation_email, parse_key
from flask_ibi_archive.resolver import registrations
from flask_ibi_archive.resolver.config import ResolverConfig
from flask_ibi_archive.resolver.key_hashes import COST, hash_key, is_key_of
from flask_ibi_archive.resolver.key_limits import KeyLimit, group_sender
from flask_ibi_archive.resolver.registrations import RegisteredKey, RegisteredRecord
from flask_ibi_archive.storage.database import Database

REGISTERED = "registered"
INCLUDED = "included"
NOT_CONFIRMED = "included, not confirmed"
EXCLUDED = "excluded"

#: The address of a sender that is not known: the unspecified one.
UNKNOWN_SENDER = "0.0.0.0"


@dataclass
class Registry:
    """Registers Archives, and takes their inclusion and exclusion requests.

    :param fetch: the HTTP client that Archives are called back with.
    :param now: gives the date.
    :param cost: what a key's hash costs; see :mod:`~flask_ibi_archive.resolver.key_hashes`.
    """

    database: Database
    config: ResolverConfig
    fetch: Callable[..., HttpResponse] = fetch
    now: Callable[[], datetime] = lambda: datetime.now(timezone.utc)
    cost: int = COST

    def register(
        self, service_ibi: str, key: str, email: str | None = None, *, replace: bool = False
    ) -> bool:
        """Register an Archive, so that it can have itself included by the key.

        With the same key it does no harm to one that is registered already.

        :param service_ibi: the IBI of its service.
        :param key: the registration key.
        :param email: who gets the confirmation; None: nobody, or who got it before.
        :param replace: whether one that is registered by another key gets this one. It stays as it
            is otherwise: included, if it was.
        :returns: whether it is new.
        :raises IdentifierError: if that is none.
        :raises ValueError: if the key has not the form of one; it is not shown.
        :raises AlreadyRegistered: if it is registered by another key, which is not to be replaced.
        :raises NotReady: if the database is away or has not our tables.
        Source: [R] 5.1.
        """
        service_ibi = parse_identifier(service_ibi).text
        key_hash = hash_key(parse_key(key), self.cost)
        while True:
            # no hash is computed in a transaction: others would have to wait for it
            known = self._find(service_ibi)
            if known is None:
                with self.database.writing() as connection:
                    if registrations.store_registration(
                        connection, service_ibi, key_hash, email, self.now()
                    ):
                        return True
                continue
            same = is_key_of(key, known.key_hash)
            if not same and not replace:
                raise AlreadyRegistered(service_ibi)
            with self.database.writing() as connection:
                kept = known.key_hash if same else key_hash
                if registrations.replace_key(connection, known, kept, email):
                    return False

    def remove(self, service_ibi: str) -> None:
        """Take a registration out, with all that is known of the Archive; it is asked no more.

        :raises UnknownArchive: if there is no such.
        :raises NotReady: if the database is away or has not our tables.
        """
        service_ibi = parse_identifier(service_ibi).text
        with self.database.writing() as connection:
            if not registrations.remove_registration(connection, service_ibi):
                raise UnknownArchive(service_ibi)

    def list(self) -> Sequence[RegisteredRecord]:
        """Return the Archives that are registered, in the order they came."""
        return self.database.read(registrations.list_registered)

    def confirmation_email(self, service_ibi: str) -> tuple[str, str]:
        """Return subject and body of the e-mail that tells an Archive's administrator of its
        registration.

        Source: [R] 5.1.
        """
        return build_confirmation_email(parse_identifier(service_ibi), self.config.service_url)

    def check(self, request: RegistrationRequest, sender: str = UNKNOWN_SENDER) -> RegisteredKey:
        """Return the registration of the Archive that asks.

        One that is not registered is refused at once, by the same words as a wrong key. The time
        tells the two apart, but no secret: the IBIs of Archives are public.

        :param sender: the IP address that the request came from.
        :raises RegistrationRefused: if it is not registered, or by another key.
        :raises TooManyWrongKeys: if the rate limit of wrong keys is reached; the key was not looked
            at.
        :raises NotReady: if the database is away or has not our tables.
        """
        service_ibi = request.service_ibi.text
        known = self._find(service_ibi)
        if known is None:
            raise RegistrationRefused(service_ibi)
        limit = KeyLimit(self.database, known.id, group_sender(sender), self.now())
        wait = limit.begin()
        if wait is not None:
            raise TooManyWrongKeys(service_ibi, wait)
        if not is_key_of(request.key, known.key_hash):
            raise RegistrationRefused(service_ibi)
        limit.succeed()
        return known

    def take(
        self, request: RegistrationRequest, sender: str = UNKNOWN_SENDER
    ) -> RegistrationStatus:
        """Include an Archive or exclude it, as it asks, and give what became of it.

        To ask again does no harm. While an Archive is called back nothing in the database is held.

        :param sender: as for :meth:`check`.
        :raises RegistrationRefused: if the Archive is not registered, or by another key.
        :raises TooManyWrongKeys: if the rate limit of wrong keys is reached.
        :raises InternalArchive: if its address is an internal one that no setting allows; it stays
            as it was.
        :raises RegistrationOvertaken: if another request of it came while it was called back.
        :raises NotReady: if the database is away or has not our tables.
        Source: [R] 5.2.
        """
        service_ibi = request.service_ibi.text
        known = self.check(request, sender)
        with self.database.writing() as connection:
            number = registrations.begin_request(connection, known)
            if number is not None and request.subject == EXCLUSION_REQUEST:
                registrations.store_exclusion(connection, known, number, self.now())
        if number is None:
            raise RegistrationRefused(service_ibi)
        if request.subject == EXCLUSION_REQUEST:
            return RegistrationStatus(RESULTS[EXCLUSION_REQUEST])
        return self._include(known, number, request)

    def _include(
        self, known: RegisteredKey, number: int, request: RegistrationRequest
    ) -> RegistrationStatus:
        confirmed = self._is_confirmed(request)
        with self.database.writing() as connection:
            done = registrations.store_inclusion(
                connection,
                known,
                number,
                address=request.address,
                ip=request.ip,
                platform_version=request.platform_version,
                admin_email=request.admin_email,
                confirmed=confirmed,
                now=self.now(),
            )
            if done:
                return _included(confirmed)
            # a later request was taken meanwhile, or the administrator changed something
            valid = registrations.find_key(connection, request.service_ibi.text) == known
            found = registrations.find_registered(connection, known.id)
        if not valid or found is None:
            raise RegistrationRefused(request.service_ibi.text)
        if found.included_at is None or found.address != request.address:
            raise RegistrationOvertaken(request.service_ibi.text)
        return _included(found.confirmed_at is not None)

    def _is_confirmed(self, request: RegistrationRequest) -> bool:
        """Call an Archive back; tell whether it wants to be included ([R] 5.2, Example 5.4).

        :raises InternalArchive: if its address is an internal one that no setting allows.
        """
        try:
            answer = self.fetch(
                f"http://{request.address}/{request.service_ibi.text}",
                format_request(InclusionConfirmationRequest()),
                seconds=self.config.archive_timeout,
                limit=self.config.max_answer,
                inner_hosts=self.config.inner_hosts,
            )
            kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
            if answer.status != 200 or kind != "text/plain" or not answer.complete:
                return False
            told = [pair.text for pair in parse_pairs(answer.body) if pair.name == "confirmation"]
        except (TransportError, PeerProtocolError) as error:
            if isinstance(error, TransportError) and error.kind == INTERNAL:
                raise InternalArchive(request.service_ibi.text, request.address) from None
            return False
        return told == ["yes"]

    def _find(self, service_ibi: str) -> RegisteredKey | None:
        return self.database.read(
            lambda connection: registrations.find_key(connection, service_ibi)
        )


def _included(confirmed: bool) -> RegistrationStatus:
    return RegistrationStatus(RESULTS[INCLUSION_REQUEST], CONFIRMATIONS[0 if confirmed else 1])


def state_of(record: RegisteredRecord) -> tuple[str, datetime]:
    """Return how an Archive stands, and since when."""
    if record.included_at is not None:
        return INCLUDED if record.confirmed_at else NOT_CONFIRMED, record.included_at
    if record.excluded_at is not None:
        return EXCLUDED, record.excluded_at
    return REGISTERED, record.registered_at
