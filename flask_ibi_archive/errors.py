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
      StorageError
        NotReady                  the database is away, empty or of another revision
        UnknownItem
        RuleBroken                one of the rules of the storage model
        RecordError               a record of an import file is wrong

Each message is one line that says what is wrong, where, and what would be right; the facts in it are
attributes as well, so that nobody has to take a message apart.
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


class RecordError(StorageError):
    """A record of an import file is wrong; nothing of the file was taken.

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
