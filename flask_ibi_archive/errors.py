"""The exceptions of this package. Those that do not leave a subject are in its modules.

::

    IBIError
      ConfigError                 a setting is missing or wrong
      RefusedText                 a text does not follow its grammar (also a ValueError)
      IdentifierError             a text is not an identifier (also a ValueError)
      MintingError                no identifier can be assigned now
      PeerProtocolError           a received message is wrong
        MalformedPersistentUrl    a text is not a persistent URL
      TransportError              another server cannot be reached, or its answer is incomplete
      RegistrationError           the resolver did not include or exclude the Archive
        ResolverError             the resolver refused a request, or did not answer it
      MailError                   an e-mail cannot be sent
      OfferError                  an offer of another Archive cannot be accepted, or not now
      StorageError                the storage cannot do what was requested
        NotReady                  the database is unreachable, empty or of another revision
        UnknownItem               no item of the Archive has the identifier
        RuleBroken                a rule of the storage model would be broken
        RecordError               a record of an import file is wrong
        RowError                  a row of a host's own model cannot be stored as an item

Each message is one line. The message says what is wrong, where the error is, and what would be
right. The values in the message are also attributes of the exception.
"""

from __future__ import annotations

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
    :param reason: what is wrong with the text; a :class:`Reason` if a page shows it.
    :param suggestion: the identifier that the user probably meant; None if this is not clear.
    :param wanted: what the text should be.
    """

    def __init__(
        self,
        text: str,
        reason: Reason | str,
        suggestion: str | None = None,
        wanted: str = "an IBI",
    ) -> None:
        self.text = text
        self.reason = reason
        self.suggestion = suggestion
        super().__init__(f"{text[:300]!r} is not {wanted}: {reason}{ask_if_meant(suggestion)}")

    @property
    def rule(self) -> str:
        """The English text of the reason."""
        return str(self.reason)


class MintingError(IBIError):
    """No identifier can be assigned now. The next attempt may use the same date."""


class PeerProtocolError(IBIError):
    """A message that this program received does not follow the protocol.

    :param text: what is wrong with the message, in one line.
    :param position: the number of characters before the error; None if the position is unknown.
    """

    def __init__(self, text: str, position: int | None = None) -> None:
        self.text = text
        self.position = position
        super().__init__(text if position is None else f"{text} (at position {position})")


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


class ResolverError(RegistrationError):
    """The resolver refused a request, cannot be reached, or its answer is wrong.

    :param url: the URL of the resolver.
    :param reason: what the resolver did. In the message, this text follows the URL.
    :param advice: what the administrator can do.
    :param is_refusal: whether the resolver refused the request: the Archive is not registered, or
        has another key.
    """

    def __init__(self, url: str, reason: str, advice: str, *, is_refusal: bool = False) -> None:
        self.url = url
        self.reason = reason
        self.advice = advice
        self.is_refusal = is_refusal
        super().__init__(f"the resolver {url} {reason}; {advice}")


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


class RuleBroken(StorageError):
    """An operation would break one of the eight rules of the storage model.

    :param rule: the number of the rule, 1 to 8. The message does not show this number.
    :param ibi: the identifier of the item that would break the rule; None if unknown.
    :param reason: what is wrong and what would be right.
    :param field: the field of the item that would break the rule; None if it follows from the rule.
    """

    def __init__(self, rule: int, ibi: str | None, reason: str, field: str | None = None) -> None:
        self.rule = rule
        self.ibi = ibi
        self.reason = reason
        self.field = field
        super().__init__(f"{ibi}: {reason}" if ibi else reason)


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
