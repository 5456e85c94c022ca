"""Every error that this package raises on purpose.

::

    IBIError
      ConfigError                 a setting is missing or wrong
      IdentifierError             a text is no identifier (also a ValueError)
      MintingError                no identifier can be given now
        ClockError                its date lies too far ahead of the clock
      ProtocolError
        LocalProtocolError        we would have sent something illegal (also a ValueError)
        PeerProtocolError         the peer sent something illegal
          MissingParameter
          RepeatedParameter
          BadParameter
          UnknownSubject
          MalformedPersistentUrl
      TransportError              another server can't be asked, or breaks off
      RegistrationError           the resolver did not take or give up the Archive
        ArchiveMoved              another address or IP is registered: this may be a copy
        ResolverError             the resolver gave no status
          ResolverRefused         it says no
          ResolverFailed          it can't be reached, or does not answer as it should
        AlreadyRegistered         a resolver has the Archive registered by another key
        RegistrationRefused       a resolver takes no inclusion or exclusion by this key
          InternalArchive         its address is an internal one
          RegistrationOvertaken   another request of the Archive came meanwhile
          TooManyWrongKeys        the rate limit of wrong keys is reached
      MailError                   an e-mail can't be handed over
      StorageError
        NotReady                  the database is away, empty or of another revision
        UnknownItem
        UnknownArchive            a resolver has no such Archive registered
        RuleBroken                one of the rules of the storage model
        ForbiddenMove             an item's state does not allow it
        RecordError               a record of an import file is wrong
        BackupError               a file is no backup, or not what it was

Each message is one line that says what is wrong, where, and what would be right; the facts in it
are attributes as well, so that nobody has to take a message apart.
"""

from __future__ import annotations


class IBIError(Exception):
    """Anything that flask_ibi_archive refuses."""


class ConfigError(IBIError):
    """A setting is missing or wrong.

    :param key: the configuration key.
    :param value: the value found (None: none). It is shown in the message: never pass a secret.
    :param expected: what it should be.
    """

    def __init__(self, key: str, value: object, expected: str) -> None:
        self.key = key
        self.value = value
        self.expected = expected
        found = "is not set" if value is None else f"is {value!r}"
        super().__init__(f"{key} {found}; it should be {expected}")


class IdentifierError(IBIError, ValueError):
    """A text is no identifier.

    :param text: the text.
    :param rule: what is wrong with it.
    :param suggestion: the identifier that was probably meant, if exactly one repair gives one.
    """

    def __init__(self, text: str, rule: str, suggestion: str | None = None) -> None:
        self.text = text
        self.rule = rule
        self.suggestion = suggestion
        hint = f"; did you mean {suggestion}?" if suggestion else ""
        super().__init__(f"{text[:300]!r} is no IBI: {rule}{hint}")


class MintingError(IBIError):
    """No identifier can be given now; nothing was used up."""


class ClockError(MintingError):
    """The next date lies too far ahead of the clock.

    :param wait: seconds that would have to be waited.
    :param limit: seconds that may be waited.
    :param advice: what to do about it.
    """

    def __init__(self, wait: float, limit: float, advice: str) -> None:
        self.wait = wait
        self.limit = limit
        self.advice = advice
        super().__init__(
            f"the next free date comes in {wait:.3f} s, more than IBI_MINT_MAX_WAIT ({limit:g} s) "
            f"allows; {advice}"
        )


class ProtocolError(IBIError):
    """A message breaks the protocol."""


class LocalProtocolError(ProtocolError, ValueError):
    """We would have sent something illegal."""


class PeerProtocolError(ProtocolError):
    """The peer sent something illegal.

    :param text: what is wrong with it, in one line.
    :param position: where, counted in characters from 0, when that is known.
    """

    def __init__(self, text: str, position: int | None = None) -> None:
        self.text = text
        self.position = position
        super().__init__(text if position is None else f"{text} (at position {position})")


class MissingParameter(PeerProtocolError):
    """A required pair is missing.

    :param name: its name.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"{name} is missing")


class RepeatedParameter(PeerProtocolError):
    """A pair stands more than once.

    :param name: its name.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"{name} is given more than once")


class BadParameter(PeerProtocolError):
    """The value of a pair is not what its grammar allows.

    :param name: the name of the pair.
    :param reason: what is wrong with its value.
    """

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        super().__init__(f"{name}: {reason}")


class UnknownSubject(PeerProtocolError):
    """servicesubject is none that is answered here.

    :param subject: the value found.
    :param known: those that are answered.
    """

    def __init__(self, subject: str, known: tuple[str, ...]) -> None:
        self.subject = subject
        self.known = known
        super().__init__(
            f"servicesubject {subject[:80]!r} is unknown; it is one of {', '.join(known)}"
        )


class MalformedPersistentUrl(PeerProtocolError):
    """A text is no persistent URL.

    :param url: the text.
    :param rule: what is wrong with it and what would be right.
    :param suggestion: the identifier that was probably meant, if exactly one repair gives one.
    """

    def __init__(self, url: str, rule: str, suggestion: str | None = None) -> None:
        self.url = url
        self.rule = rule
        self.suggestion = suggestion
        hint = f"; did you mean {suggestion}?" if suggestion else ""
        super().__init__(f"{url[:300]!a} is no persistent URL: {rule}{hint}")


class TransportError(IBIError):
    """Another server can't be asked, or does not give a whole answer.

    :param url: its URL, without the query.
    :param kind: ``name``, ``internal``, ``unreachable``, ``timeout``, ``tls``, ``cut off``, ``no
        http``, ``encoding`` or ``url``.
    :param reason: what is wrong, to be read behind the URL.
    :param passing: whether it may pass by itself.
    """

    def __init__(self, url: str, kind: str, reason: str, passing: bool) -> None:
        self.url = url
        self.kind = kind
        self.reason = reason
        self.passing = passing
        super().__init__(f"{url} {reason}")


class MailError(IBIError):
    """An e-mail can't be handed over.

    :param server: the mail server.
    :param reason: what it said, or what keeps it from being asked; without passwords.
    """

    def __init__(self, server: str, reason: str) -> None:
        self.server = server
        self.reason = reason
        super().__init__(f"the mail server {server} {reason}")


class RegistrationError(IBIError):
    """The resolver did not take the Archive in, or did not give it up."""


class ArchiveMoved(RegistrationError):
    """The Archive's address or IP is another than the one that the resolver was told: a clone,
    perhaps.

    :param key: the setting that differs.
    :param found: its value.
    :param registered: the value that the resolver was told last.
    """

    def __init__(self, key: str, found: str, registered: str) -> None:
        self.key = key
        self.found = found
        self.registered = registered
        super().__init__(
            f"{key} is {found}, but the Archive is registered at {registered}; if it has really moved, "
            "say so with --moved; if this is a copy of its database, leave the resolver alone"
        )


class ResolverError(RegistrationError):
    """The resolver gave no status.

    :param url: its URL.
    :param reason: what it did, to be read behind the URL.
    :param advice: what to do about it.
    """

    def __init__(self, url: str, reason: str, advice: str) -> None:
        self.url = url
        self.reason = reason
        self.advice = advice
        super().__init__(f"the resolver {url} {reason}; {advice}")


class ResolverRefused(ResolverError):
    """The resolver says no: it knows the Archive not, or by another key."""


class ResolverFailed(ResolverError):
    """The resolver can't be reached, or does not answer as it should.

    :param passing: whether it may pass by itself.
    :param retry_after: seconds that it wants to be left alone, where it said so.
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
    """An Archive is registered with this resolver already, by another key.

    :param service_ibi: the IBI of the Archive's service.
    """

    def __init__(self, service_ibi: str) -> None:
        self.service_ibi = service_ibi
        super().__init__(
            f"the Archive {service_ibi} is registered already, by another key; if this one should take its "
            "place, say so with --replace"
        )


class RegistrationRefused(RegistrationError):
    """A resolver does not take an inclusion or exclusion request.

    Whether the Archive is unknown or the key is another one, it is told the same.

    :param service_ibi: the IBI of the Archive's service.
    """

    #: The status of the answer.
    status = 403

    def __init__(self, service_ibi: str, reason: str = "") -> None:
        self.service_ibi = service_ibi
        super().__init__(
            reason or f"no Archive with the service {service_ibi} is registered by this key"
        )


class InternalArchive(RegistrationRefused):
    """An Archive asks to be included with an internal address, which no setting of the resolver
    allows.

    :param address: its archiveaddress.
    """

    status = 400

    def __init__(self, service_ibi: str, address: str) -> None:
        super().__init__(
            service_ibi,
            f"archiveaddress: {address} has an internal IP address, which this resolver's setting "
            "IBI_RESOLVER_INNER_HOSTS does not allow",
        )


class TooManyWrongKeys(RegistrationRefused):
    """Too many wrong keys came from a sender or for an Archive: no key is looked at for a while.

    :param retry_after: seconds until the next one is.
    """

    status = 429

    def __init__(self, service_ibi: str, retry_after: int) -> None:
        self.retry_after = retry_after
        super().__init__(
            service_ibi,
            f"too many wrong registration keys came from this address or for the Archive {service_ibi}; "
            f"try again in {retry_after} s",
        )


class RegistrationOvertaken(RegistrationRefused):
    """An inclusion came to nothing, since another request of the Archive came while it was called
    back.
    """

    status = 409

    def __init__(self, service_ibi: str) -> None:
        super().__init__(
            service_ibi,
            f"another request of the Archive {service_ibi} came meanwhile and counts; if this one should, "
            "ask again",
        )


class StorageError(IBIError):
    """The store can't do what was asked."""


class NotReady(StorageError):
    """The database is away, or has not the tables that this version needs.

    :param reason: what is wrong.
    :param advice: what to do about it.
    :param detail: what the database said: for the log and the administrator, not for everybody.
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
    """No item of this Archive bears the identifier.

    :param ibi: the identifier asked for.
    """

    def __init__(self, ibi: str) -> None:
        self.ibi = ibi
        super().__init__(f"no item of this Archive bears {ibi}")


class UnknownArchive(StorageError):
    """No such Archive is registered with this resolver.

    :param service_ibi: the IBI of the service asked for.
    """

    def __init__(self, service_ibi: str) -> None:
        self.service_ibi = service_ibi
        super().__init__(f"no Archive with the service {service_ibi} is registered")


class RuleBroken(StorageError):
    """One of the eight rules of the storage model would be broken.

    :param rule: its number (1 to 8).
    :param ibi: the item that would break it, where that is known.
    :param reason: what is wrong and what would be right.
    """

    def __init__(self, rule: int, ibi: str | None, reason: str) -> None:
        self.rule = rule
        self.ibi = ibi
        self.reason = reason
        super().__init__(f"rule {rule}: {f'{ibi}: ' if ibi else ''}{reason}")


class ForbiddenMove(StorageError):
    """The state of an item does not allow what was asked of it.

    :param ibi: the item.
    :param state: its state, None where there is no such item.
    :param wanted: what was asked, as it follows "it can't".
    :param allowed: the states that allow it.
    """

    def __init__(self, ibi: str, state: str | None, wanted: str, allowed: tuple[str, ...]) -> None:
        self.ibi = ibi
        self.state = state
        self.wanted = wanted
        self.allowed = allowed
        found = "is not there" if state is None else f"has the state {state}"
        only = f"only an item that is {' or '.join(allowed)} can" if allowed else "no item can"
        super().__init__(f"{ibi} {found}: it can't {wanted}; {only}")


class RecordError(StorageError):
    """A record of an import file is wrong; nothing of the file was taken, or (``--resume``) what
    was before it.

    :param source: the name of the file.
    :param line: the number of the line, from 1.
    :param field: the field, or None where the whole line is wrong.
    :param reason: what is wrong and what would be right.
    """

    def __init__(self, source: str, line: int, field: str | None, reason: str) -> None:
        self.source = source
        self.line = line
        self.field = field
        self.reason = reason
        super().__init__(f"{source}, line {line}{f', {field}' if field else ''}: {reason}")


class BackupError(StorageError):
    """A file is no backup that can be restored; nothing was changed.

    :param source: the name of the file.
    :param reason: what is wrong with it.
    """

    def __init__(self, source: str, reason: str) -> None:
        self.source = source
        self.reason = reason
        super().__init__(f"{source} can't be restored: {reason}")
