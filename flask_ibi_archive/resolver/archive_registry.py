"""The registration, inclusion and exclusion of a resolver's Archives.

The resolver's administrator registers an Archive and a registration key. The Archive then sends an
inclusion request with this key. The resolver sends a request back to the Archive and asks whether
the Archive wants the inclusion (the confirmation call). An exclusion request ends the inclusion.
Source: [R] 5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from flask_ibi_archive import errors
from flask_ibi_archive.core.identifiers import parse_identifier
from flask_ibi_archive.core.protocol import inclusion
from flask_ibi_archive.core.protocol.messages import format_request
from flask_ibi_archive.core.protocol.pairs import parse_pairs
from flask_ibi_archive.resolver import archive_rows
from flask_ibi_archive.resolver.archive_rows import RegisteredKey, RegisteredRecord
from flask_ibi_archive.resolver.claims.pinning import lock_holders, pin_key, read_key
from flask_ibi_archive.resolver.clashes import find_clashes, tell_of_clashes
from flask_ibi_archive.resolver.config import ResolverConfig
from flask_ibi_archive.resolver.secret_checks import COST, KeyRateLimit, hash_secret, matches_hash
from flask_ibi_archive.resolver.tables import RegisteredArchive
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.http.transport import INTERNAL, HttpResponse, fetch
from flask_ibi_archive.signals import NOBODY, Notifier

#: The states of a registered Archive. The command ``list`` prints these texts.
REGISTERED = "registered"
INCLUDED = "included"
NOT_CONFIRMED = "included, not confirmed"
EXCLUDED = "excluded"

#: The IP address that stands for an unknown sender.
UNKNOWN_SENDER = "0.0.0.0"


@dataclass
class Registry:
    """Registers Archives and processes their inclusion and exclusion requests.

    :param fetch: the HTTP client for the confirmation call to an Archive.
    :param now: returns the current date.
    :param cost: the cost of the hash of a key. See :func:`.secret_checks.hash_secret`.
    :param notifier: sends the signals archive_included and archive_excluded.
    """

    database: Database
    config: ResolverConfig
    fetch: Callable[..., HttpResponse] = fetch
    now: Callable[[], datetime] = lambda: datetime.now(timezone.utc)
    cost: int = COST
    notifier: Notifier = NOBODY

    def register(
        self, service_ibi: str, key: str, email: str | None = None, *, replace: bool = False
    ) -> bool:
        """Register an Archive. The Archive can then request the inclusion with the key.

        If the Archive is already registered with the same key, only the e-mail address changes.

        :param service_ibi: the IBI of the Archive's service.
        :param key: the registration key.
        :param email: the address for the confirmation e-mail. None keeps the earlier address.
        :param replace: True allows the key to replace a different key. If the Archive is included,
            the Archive stays included.
        :returns: True if the Archive is new.
        :raises IdentifierError: if ``service_ibi`` is not an IBI.
        :raises ValueError: if the key is malformed. The message does not contain the key.
        :raises RegistrationError: if the Archive has a different key and ``replace`` is False.
        :raises NotReady: if the database is not available or has no tables of the resolver.
        Source: [R] 5.1.
        """
        service_ibi = parse_identifier(service_ibi).text
        key_hash = hash_secret(inclusion.parse_key(key), self.cost)
        while True:
            # keys are hashed outside transactions, so that no other transaction must wait
            known = self._find_key(service_ibi)
            if known is None:
                with self.database.writing() as connection:
                    if archive_rows.store_registration(
                        connection, service_ibi, key_hash, email, self.now()
                    ):
                        return True
                continue
            is_same = matches_hash(key, known.key_hash)
            if not is_same and not replace:
                raise errors.RegistrationError(
                    f"the Archive {service_ibi} is already registered with another key; to "
                    "replace the key, use --replace"
                )
            with self.database.writing() as connection:
                # False if the Archive was removed or another process has replaced the key
                if archive_rows.update_archive(
                    connection,
                    known,
                    key_hash=known.key_hash if is_same else key_hash,
                    email=RegisteredArchive.email if email is None else email,
                ):
                    return False

    def remove(self, service_ibi: str) -> None:
        """Delete the registration, hints and metrics of an Archive.

        The resolver then sends no more requests to this Archive.

        :raises StorageError: if the Archive is not registered.
        :raises NotReady: if the database is not available or has no tables of the resolver.
        """
        service_ibi = parse_identifier(service_ibi).text
        with self.database.writing() as connection:
            if not archive_rows.remove_registration(connection, service_ibi):
                raise errors.StorageError(
                    f"no Archive with the service {service_ibi} is registered"
                )

    def list(self) -> Sequence[RegisteredRecord]:
        """Return all registered Archives in the order of their registration."""
        return self.database.read(archive_rows.list_registered)

    def confirmation_email(self, service_ibi: str) -> tuple[str, str]:
        """Return the subject and the body of the e-mail that confirms a registration ([R] 5.1)."""
        return inclusion.build_confirmation_email(
            parse_identifier(service_ibi), self.config.service_url
        )

    def authenticate(
        self, request: inclusion.RegistrationRequest, sender: str = UNKNOWN_SENDER
    ) -> RegisteredKey:
        """Check the key in a request, and return the id and key hash of the Archive.

        An unknown Archive and a wrong key cause the same error. For an unknown Archive, the error
        is raised faster. The faster error reveals no secret, because the IBIs of Archives are
        public.

        :param sender: the IP address of the sender of the request.
        :raises RegistrationRefused: if the Archive is not registered, if the key is wrong, or if
            the rate limit is reached. Then the key is not compared.
        :raises NotReady: if the database is not available or has no tables of the resolver.
        """
        service_ibi = request.service_ibi.text
        known = self._find_key(service_ibi)
        if known is None:
            raise _refuse_key(service_ibi)
        limit = KeyRateLimit(self.database, sender, self.now(), known.id)
        wait = limit.count_attempt()
        if wait is not None:
            raise errors.RegistrationRefused(
                "too many wrong registration keys came from this address or for the Archive "
                f"{service_ibi}; try again in {wait} s",
                status=429,
                retry_after=wait,
            )
        if not matches_hash(request.key, known.key_hash):
            raise _refuse_key(service_ibi)
        limit.clear_attempts()
        return known

    def process(
        self, request: inclusion.RegistrationRequest, sender: str = UNKNOWN_SENDER
    ) -> inclusion.RegistrationStatus:
        """Process the inclusion request or exclusion request of an Archive, and return the result.

        An Archive may send the same request several times. If it publishes claims, the key that
        signs them is pinned together with the inclusion (claims/pinning.py). No transaction is open
        during the calls to the Archive.

        :param sender: the IP address of the sender of the request.
        :raises RegistrationRefused: if the Archive is not registered, if the key is wrong, if the
            rate limit of wrong keys is reached, or if a later request was stored during the
            confirmation call. Also if the Archive has an internal address that is not allowed, or
            its key has the name of another Archive's log: then its state does not change.
        :raises NotReady: if the database is not available or has no tables of the resolver.
        Source: [R] 5.2.
        """
        service_ibi = request.service_ibi.text
        known = self.authenticate(request, sender)
        with self.database.writing() as connection:
            number = archive_rows.begin_request(connection, known)
            if number is not None and request.subject == inclusion.EXCLUSION_REQUEST:
                archive_rows.store_exclusion(connection, known, number, self.now())
        if number is None:
            raise _refuse_key(service_ibi)
        if request.subject == inclusion.EXCLUSION_REQUEST:
            status, confirmed = (
                inclusion.RegistrationStatus(inclusion.RESULTS[inclusion.EXCLUSION_REQUEST]),
                None,
            )
        else:
            before = find_clashes(self.database, service_ibi)
            status = self._include(known, number, request)
            confirmed = status.confirmed
            clashes = find_clashes(self.database, service_ibi)
            tell_of_clashes(self.config, {text: clashes[text] for text in clashes.keys() - before})
            status = replace(status, clash="; ".join(clashes))
        self.notifier.send_registration(
            "resolver", confirmed, service_ibi, request.address, self.config.service_url
        )
        return status

    def _include(
        self, known: RegisteredKey, number: int, request: inclusion.RegistrationRequest
    ) -> inclusion.RegistrationStatus:
        confirmed = self._call_for_confirmation(request)
        key = None
        if confirmed:  # by the Archive at this address, so that the key is its own
            key = read_key(self.fetch, request.address, request.service_ibi.text, self.config)
        with self.database.writing() as connection:
            if key is not None:
                lock_holders(connection, known.id, key)
            if archive_rows.store_inclusion(
                connection, known, number, request, confirmed, self.now()
            ):
                if key is not None:
                    pin_key(connection, known.id, key, self.now())
                return _inclusion_status(confirmed)
            # meanwhile a later request was stored, or the administrator changed the registration
            valid = archive_rows.find_key(connection, request.service_ibi.text) == known
            is_known = RegisteredArchive.id == known.id
            records = archive_rows.list_registered(connection, is_known)
        if not valid or not records:
            raise _refuse_key(request.service_ibi.text)
        [found] = records
        if found.included_at is None or found.address != request.address:
            raise errors.RegistrationRefused(
                f"a later request of the Archive {request.service_ibi} replaces this request; if "
                "this request is the right one, send this request again",
                status=409,
            )
        return _inclusion_status(found.confirmed_at is not None)

    def _call_for_confirmation(self, request: inclusion.RegistrationRequest) -> bool:
        """Ask an Archive to confirm its inclusion, and return True if the Archive answers "yes".

        :raises RegistrationRefused: if the Archive has an internal address that is not allowed.
        Source: [R] 5.2, Example 5.4.
        """
        try:
            answer = self.fetch(
                f"http://{request.address}/{request.service_ibi.text}",
                format_request(inclusion.InclusionConfirmationRequest()),
                seconds=self.config.archive_timeout,
                limit=self.config.max_answer,
                inner_hosts=self.config.inner_hosts,
            )
            kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
            if answer.status != 200 or kind != "text/plain" or not answer.complete:
                return False
            pairs = parse_pairs(answer.body)
        except (errors.TransportError, errors.PeerProtocolError) as error:
            if isinstance(error, errors.TransportError) and error.kind == INTERNAL:
                raise errors.RegistrationRefused(
                    f"archiveaddress: {request.address} has an internal IP address; the setting "
                    "IBI_RESOLVER_INNER_HOSTS of this resolver does not allow this address",
                    status=400,
                ) from None
            return False
        return [pair.text for pair in pairs if pair.name == "confirmation"] == ["yes"]

    def _find_key(self, service_ibi: str) -> RegisteredKey | None:
        return self.database.read(lambda connection: archive_rows.find_key(connection, service_ibi))


def _inclusion_status(confirmed: bool) -> inclusion.RegistrationStatus:
    return inclusion.RegistrationStatus(
        inclusion.RESULTS[inclusion.INCLUSION_REQUEST],
        inclusion.CONFIRMATIONS[0 if confirmed else 1],
    )


def get_state(record: RegisteredRecord) -> tuple[str, datetime]:
    """Return the state of a registered Archive, and the date when the state began."""
    if record.included_at is not None:
        return INCLUDED if record.confirmed_at else NOT_CONFIRMED, record.included_at
    if record.excluded_at is not None:
        return EXCLUDED, record.excluded_at
    return REGISTERED, record.registered_at


def _refuse_key(service_ibi: str) -> errors.RegistrationRefused:
    """Return the error for an unknown Archive or a wrong key, which are not distinguished."""
    message = f"no Archive with the service {service_ibi} is registered with this key"
    return errors.RegistrationRefused(message, status=403)
