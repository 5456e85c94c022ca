"""All exceptions of this package.

::

    IBIError
      ConfigError                 a setting is missing or wrong
        NoDatabaseYet             the session of the host has no database, or not yet
      RefusedText                 a text does not follow its grammar (also a ValueError)
      IdentifierError             a text is not an identifier (also a ValueError)
        ForeignIdentifierError    a text is not an identifier of another system, nor an address
      MintingError                no identifier can be assigned now
        ClockError                the next free date is too far ahead of the clock
      ProtocolError
        LocalProtocolError        a message to be sent is wrong (also a ValueError)
        PeerProtocolError         a received message is wrong
          ClaimError              a claim, a checkpoint, a signature or a proof is false
          MissingParameter        a required pair is missing
          RepeatedParameter       a pair is in the request more than once
          BadParameter            the value of a pair is wrong
          UnknownSubject          the value of servicesubject is unknown
          MalformedPersistentUrl  a text is not a persistent URL
      TransportError              another server cannot be reached, or its answer is incomplete
      RegistrationError           the resolver did not include or exclude the Archive
        ArchiveMoved              the Archive is registered with another address or IP
        ResolverError             the resolver returned no status
          ResolverRefused         the resolver refused the request
          ResolverFailed          the resolver cannot be reached, or its answer is wrong
        AlreadyRegistered         the Archive is already registered with another key
        RegistrationRefused       a resolver refuses an inclusion or exclusion request
          InternalArchive         the address of the Archive is an internal address
          RegistrationOvertaken   a later request of the Archive replaces this request
          LogOfAnotherArchive     the name of the log of claims belongs to another Archive
          TooManyWrongKeys        too many wrong keys were sent
      DocumentRegistryError       a request of the registry protocol of 2008 is refused
      HarvestError                a request of a harvester (OAI-PMH) is wrong
      HostFunctionFailed          a function of the host raises an exception for an item
        CannotWriteMetadata       the metadata of the item can't be written in a format
        CannotFindSets            the sets of the item can't be found
      MailError                   an e-mail cannot be sent
      OfferError                  an offer of another Archive cannot be accepted, or not now
      MirrorError                 the list of another resolver cannot be taken over
      StorageError
        NotReady                  the database is unreachable, empty or of another revision
        UnknownItem               no item of the Archive has the identifier
        UnknownArchive            the Archive is not registered with this resolver
        RuleBroken                a rule of the storage model would be broken
        ForbiddenMove             the state of an item does not allow the operation
        RecordError               a record of an import file is wrong
        RowError                  a row of a host's own model cannot be stored as an item
        BackupError               a file is not a backup, or is damaged

Each message is one line. The message says what is wrong, where the error is, and what would be
right. The values in the message are also attributes of the exception.
"""

from __future__ import annotations

from typing import ClassVar

from flask_ibi_archive.reasons import Reason, ask_if_meant


def one_line(text: object) -> str:
    """Return the text of an object on one line: a space replaces each sequence of white space."""
    return " ".join(str(text).split())


class IBIError(Exception):
    """The base class of all errors that flask_ibi_archive raises."""


class ConfigError(IBIError):
    """A setting is missing or wrong.

    :param key: the configuration key.
    :param value: the value of the setting; None if the setting is not set. The message shows this
        value. Therefore the value must not be a secret.
    :param expected: a description of the allowed values.
    """

    def __init__(self, key: str, value: object, expected: str) -> None:
        self.key = key
        self.value = value
        self.expected = expected
        found = "is not set" if value is None else f"is {value!r}"
        super().__init__(f"{key} {found}; it should be {expected}")


class NoDatabaseYet(ConfigError):
    """The session of the host has no database, or not yet."""


class RefusedText(IBIError, ValueError):
    """A text does not follow its grammar.

    :param code: the code of the reason. The codes are the keys of
        ``flask_ibi_archive.reasons.ENGLISH``.
    :param facts: the values that the message for this code contains.
    """

    def __init__(self, code: str, /, **facts: object) -> None:
        self.reason = Reason(code, **facts)
        super().__init__(code)

    def __str__(self) -> str:
        return str(self.reason)


class IdentifierError(IBIError, ValueError):
    """A text is not an identifier.

    :param text: the text.
    :param reason: what is wrong with the text.
    :param suggestion: the identifier that the user probably meant; None if this is not clear.
    """

    wanted: ClassVar[str] = "an IBI"

    def __init__(self, text: str, reason: Reason, suggestion: str | None = None) -> None:
        self.text = text
        self.reason = reason
        self.suggestion = suggestion
        super().__init__(f"{text[:300]!r} is not {self.wanted}: {reason}{ask_if_meant(suggestion)}")

    @property
    def rule(self) -> str:
        """The English text of the reason."""
        return str(self.reason)


class ForeignIdentifierError(IdentifierError):
    """A text is not an identifier of another system, nor the address of a page."""

    wanted = "a foreign identifier"


class MintingError(IBIError):
    """No identifier can be assigned now. The next attempt may use the same date."""


class ClockError(MintingError):
    """The next free date is too far ahead of the clock.

    :param wait: the seconds until the next free date.
    :param limit: the longest allowed wait in seconds.
    :param advice: what the administrator can do.
    :param rule: who sets the limit, in words.
    """

    def __init__(
        self,
        wait: float,
        limit: float,
        advice: str,
        rule: str = "IBI_MINT_MAX_WAIT allows only",
    ) -> None:
        self.wait = wait
        self.limit = limit
        self.advice = advice
        super().__init__(
            f"the next free date is {wait:.3f} s in the future, but {rule} {limit:g} s; {advice}"
        )


class ProtocolError(IBIError):
    """A message does not follow the protocol."""


class LocalProtocolError(ProtocolError, ValueError):
    """A message that this program wanted to send does not follow the protocol."""


class PeerProtocolError(ProtocolError):
    """A message that this program received does not follow the protocol.

    :param text: what is wrong with the message, in one line.
    :param position: the number of characters before the error; None if the position is unknown.
    """

    def __init__(self, text: str, position: int | None = None) -> None:
        self.text = text
        self.position = position
        super().__init__(text if position is None else f"{text} (at position {position})")


class ClaimError(PeerProtocolError):
    """A claim, a checkpoint, a signature, a proof or a tile of a log is malformed or false."""


class MissingParameter(PeerProtocolError):
    """A required pair is missing in the message.

    :param name: the name of the pair.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"{name} is missing")


class RepeatedParameter(PeerProtocolError):
    """A pair is in the request more than once.

    :param name: the name of the pair.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"{name} appears more than once; it must appear once")


class BadParameter(PeerProtocolError):
    """The value of a pair does not follow its grammar.

    :param name: the name of the pair.
    :param reason: what is wrong with the value.
    """

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        super().__init__(f"{name}: {reason}")


class UnknownSubject(PeerProtocolError):
    """The value of servicesubject in a request is unknown.

    :param subject: the value in the request.
    :param known: the allowed values.
    """

    def __init__(self, subject: str, known: tuple[str, ...]) -> None:
        self.subject = subject
        self.known = known
        super().__init__(
            f"servicesubject {subject[:80]!r} is unknown; it must be one of {', '.join(known)}"
        )


class MalformedPersistentUrl(PeerProtocolError):
    """A text is not a persistent URL.

    :param url: the text.
    :param reason: what is wrong with the text and what would be right.
    :param suggestion: the identifier that the user probably meant; None if this is not clear.
    """

    def __init__(self, url: str, reason: Reason, suggestion: str | None = None) -> None:
        self.url = url
        self.reason = reason
        self.suggestion = suggestion
        super().__init__(
            f"{url[:300]!a} is not a persistent URL: {reason}{ask_if_meant(suggestion)}"
        )

    @property
    def rule(self) -> str:
        """The English text of the reason."""
        return str(self.reason)


class TransportError(IBIError):
    """Another server cannot be reached, or its answer is incomplete.

    :param url: the URL that was requested, without its query.
    :param kind: the kind of the error: ``name``, ``internal``, ``unreachable``, ``timeout``,
        ``tls``, ``cut off``, ``no http``, ``encoding`` or ``url``.
    :param reason: what is wrong. In the message, this text follows the URL.
    :param passing: whether the error is temporary.
    """

    def __init__(self, url: str, kind: str, reason: str, passing: bool) -> None:
        self.url = url
        self.kind = kind
        self.reason = reason
        self.passing = passing
        super().__init__(f"{url} {reason}")


class MailError(IBIError):
    """An e-mail cannot be handed to the mail server.

    :param server: the mail server.
    :param reason: the answer of the server, or why the server cannot be reached. The text contains
        no passwords.
    """

    def __init__(self, server: str, reason: str) -> None:
        self.server = server
        self.reason = reason
        super().__init__(f"the mail server {server} {reason}")


class OfferError(IBIError):
    """An offer of another Archive cannot be accepted, or not now.

    :param source: the address of the offer without its secret, or its folder.
    :param reason: what is wrong. In the message, this text follows the source.
    """

    def __init__(self, source: str, reason: str) -> None:
        self.source = source
        self.reason = reason
        super().__init__(f"{source} {reason}")


class RegistrationError(IBIError):
    """The resolver did not include the Archive, or did not exclude it."""


class ArchiveMoved(RegistrationError):
    """The Archive is registered with another address or IP. This database may be a copy.

    :param key: the setting that differs.
    :param found: the value of the setting.
    :param registered: the value in the last request to the resolver.
    """

    def __init__(self, key: str, found: str, registered: str) -> None:
        self.key = key
        self.found = found
        self.registered = registered
        super().__init__(
            f"{key} is {found}, but the Archive is registered at {registered}; if the Archive has "
            "moved, use --moved; if this database is a copy, do not register this Archive"
        )


class ResolverError(RegistrationError):
    """The resolver returned no status.

    :param url: the URL of the resolver.
    :param reason: what the resolver did. In the message, this text follows the URL.
    :param advice: what the administrator can do.
    """

    def __init__(self, url: str, reason: str, advice: str) -> None:
        self.url = url
        self.reason = reason
        self.advice = advice
        super().__init__(f"the resolver {url} {reason}; {advice}")


class ResolverRefused(ResolverError):
    """The resolver refused the request. The Archive is not registered, or has another key."""


class ResolverFailed(ResolverError):
    """The resolver cannot be reached, or its answer is wrong.

    :param passing: whether the error is temporary.
    :param retry_after: the seconds to wait before the next request; None if the answer does not
        contain this number.
    """

    def __init__(
        self,
        url: str,
        reason: str,
        advice: str,
        *,
        passing: bool = False,
        retry_after: float | None = None,
    ) -> None:
        self.passing = passing
        self.retry_after = retry_after
        super().__init__(url, reason, advice)


class AlreadyRegistered(RegistrationError):
    """The Archive is already registered with this resolver, but with another key.

    :param service_ibi: the IBI of the Archive's service.
    """

    def __init__(self, service_ibi: str) -> None:
        self.service_ibi = service_ibi
        super().__init__(
            f"the Archive {service_ibi} is already registered with another key; to replace the "
            "key, use --replace"
        )


class RegistrationRefused(RegistrationError):
    """A resolver refuses an inclusion or exclusion request.

    An unknown Archive and a wrong key cause the same message.

    :param service_ibi: the IBI of the Archive's service.
    """

    #: The HTTP status of the answer.
    status = 403

    def __init__(self, service_ibi: str, reason: str = "") -> None:
        self.service_ibi = service_ibi
        super().__init__(
            reason or f"no Archive with the service {service_ibi} is registered with this key"
        )


class InternalArchive(RegistrationRefused):
    """An Archive requests its inclusion with an internal address that is not allowed.

    :param address: the archiveaddress of the Archive.
    """

    status = 400

    def __init__(self, service_ibi: str, address: str) -> None:
        super().__init__(
            service_ibi,
            f"archiveaddress: {address} has an internal IP address; the setting "
            "IBI_RESOLVER_INNER_HOSTS of this resolver does not allow this address",
        )


class TooManyWrongKeys(RegistrationRefused):
    """Too many wrong keys came from one sender or for one Archive. Later attempts may succeed.

    :param retry_after: the seconds until the resolver can accept a key again.
    """

    status = 429

    def __init__(self, service_ibi: str, retry_after: int) -> None:
        self.retry_after = retry_after
        super().__init__(
            service_ibi,
            "too many wrong registration keys came from this address or for the Archive "
            f"{service_ibi}; try again in {retry_after} s",
        )


class RegistrationOvertaken(RegistrationRefused):
    """A later request of the same Archive replaces this request.

    The later request arrived while the resolver called the Archive for confirmation.
    """

    status = 409

    def __init__(self, service_ibi: str) -> None:
        super().__init__(
            service_ibi,
            f"a later request of the Archive {service_ibi} replaces this request; if this "
            "request is the right one, send this request again",
        )


class LogOfAnotherArchive(RegistrationRefused):
    """An Archive signs its claims with the name of another Archive's service.

    :param origin: the name of the log.
    """

    status = 409

    def __init__(self, service_ibi: str, origin: str) -> None:
        self.origin = origin
        super().__init__(
            service_ibi,
            f"the claims of {service_ibi} are signed with the name {origin[:80]!a}, which belongs "
            "to another Archive of this resolver; if it is yours, ask the resolver's administrator",
        )


class HarvestError(IBIError):
    """A request of a harvester is wrong, or no record fits the request.

    :param code: the code of the error, such as ``badArgument``.

    Source: OAI-PMH 2.0, 3.6.
    """

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        self.message = message
        super().__init__(f"{code}: {message}")


class HostFunctionFailed(IBIError):
    """A function of the host raises an exception for an item, or returns a wrong value."""


class CannotWriteMetadata(HostFunctionFailed):
    """The metadata of an item can't be written in a format.

    :param ibi: an identifier of the item.
    :param format: the name of the format.
    """

    def __init__(self, ibi: str, format: str) -> None:
        self.ibi = ibi
        self.format = format
        super().__init__(f"the metadata of the item {ibi} can't be written in the format {format}")


class CannotFindSets(HostFunctionFailed):
    """The function of the host that returns the OAI-PMH sets of an item has failed.

    :param ibi: an identifier of the item.
    """

    def __init__(self, ibi: str) -> None:
        self.ibi = ibi
        super().__init__(f"the sets of the item {ibi} can't be found")


class DocumentRegistryError(IBIError):
    """A request of the registry protocol of 2008 is refused, and nothing was changed.

    :param code: the kind of the error, one of :attr:`STATUSES`.
    :param retry_after: the number of seconds to wait before the next attempt, or None.
    :ivar status: the HTTP status of the response.

    Source: [P] 4.1 to 4.7.
    """

    #: The HTTP status for each kind of error. "denied" means a wrong password or an unknown ID.
    #: "unknown" means that no actor has registered a document whose public record is requested.
    STATUSES: ClassVar = {
        "malformed": 400,
        "denied": 403,
        "wrong-address": 403,
        "unknown": 404,
        "conflict": 409,
        "too-many-attempts": 429,
        "unavailable": 503,
    }

    def __init__(self, code: str, message: str, retry_after: int | None = None) -> None:
        self.code = code
        self.status = self.STATUSES[code]
        self.retry_after = retry_after
        super().__init__(message)


class MirrorError(IBIError):
    """The list of Archives of another resolver cannot be taken over. Nothing was changed."""


class StorageError(IBIError):
    """The storage cannot do what was requested."""


class NotReady(StorageError):
    """The database is unreachable, or does not have the tables that this version needs.

    :param reason: what is wrong.
    :param advice: what the administrator can do.
    :param detail: the message of the database. Only the log and the administrator see this text.
    """

    def __init__(self, reason: str, advice: str, detail: str = "") -> None:
        self.reason = reason
        self.advice = advice
        self.detail = detail
        super().__init__(f"{reason}{f' ({detail})' if detail else ''}; {advice}")

    @property
    def summary(self) -> str:
        """The message without the detail."""
        return f"{self.reason}; {self.advice}"


class UnknownItem(StorageError):
    """No item of this Archive has the identifier.

    :param ibi: the identifier.
    """

    def __init__(self, ibi: str) -> None:
        self.ibi = ibi
        super().__init__(f"no item of this Archive has the identifier {ibi}")


class UnknownArchive(StorageError):
    """The Archive is not registered with this resolver.

    :param service_ibi: the IBI of the Archive's service.
    """

    def __init__(self, service_ibi: str) -> None:
        self.service_ibi = service_ibi
        super().__init__(f"no Archive with the service {service_ibi} is registered")


class RuleBroken(StorageError):
    """An operation would break one of the eight rules of the storage model.

    :param rule: the number of the rule, 1 to 8. The message does not show this number.
    :param ibi: the identifier of the item that would break the rule; None if unknown.
    :param reason: what is wrong and what would be right.
    """

    def __init__(self, rule: int, ibi: str | None, reason: str) -> None:
        self.rule = rule
        self.ibi = ibi
        self.reason = reason
        super().__init__(f"{ibi}: {reason}" if ibi else reason)


class ForbiddenMove(StorageError):
    """The state of an item does not allow an operation.

    :param ibi: the identifier of the item.
    :param state: the state of the item; None if the item does not exist.
    :param wanted: the operation in words. In the message, these words follow "can't".
    :param allowed: the states that allow the operation.
    """

    def __init__(self, ibi: str, state: str | None, wanted: str, allowed: tuple[str, ...]) -> None:
        self.ibi = ibi
        self.state = state
        self.wanted = wanted
        self.allowed = allowed
        found = "does not exist" if state is None else f"has the state {state}"
        only = f"only an item that is {' or '.join(allowed)} can" if allowed else "no item can"
        super().__init__(f"{ibi} {found}: it can't {wanted}; {only}")


class RecordError(StorageError):
    """A record of an import file is wrong. No line of the file was imported.

    :param source: the name of the file.
    :param line: the number of the line. The first line is 1.
    :param field: the wrong field; None if the whole line is wrong.
    :param reason: what is wrong and what would be right.
    :param place: where the record is in a file that does not have one record in each line, such as
        ``row 7``; None: in the line.
    """

    def __init__(
        self, source: str, line: int, field: str | None, reason: str, place: str | None = None
    ) -> None:
        self.source = source
        self.line = line
        self.field = field
        self.reason = reason
        place = place or f"line {line}"
        super().__init__(f"{source}, {place}{f', {field}' if field else ''}: {reason}")


class RowError(StorageError):
    """A row of a host's own model cannot be stored as an item.

    :param row: the class and the primary key of the row, such as ``Thesis 5``.
    :param field: the wrong field of the record; None if the whole row is wrong.
    :param reason: what is wrong and what would be right.
    """

    def __init__(self, row: str, field: str | None, reason: str) -> None:
        self.row = row
        self.field = field
        self.reason = reason
        super().__init__(f"{row}: {f'{field}: ' if field else ''}{reason}")


class BackupError(StorageError):
    """A file is not a backup that can be restored. The database was not changed.

    :param source: the name of the file.
    :param reason: what is wrong with the file.
    """

    def __init__(self, source: str, reason: str) -> None:
        self.source = source
        self.reason = reason
        super().__init__(f"{source} can't be restored: {reason}")
