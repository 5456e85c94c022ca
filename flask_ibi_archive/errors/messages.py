"""Errors of what is sent and received."""

from __future__ import annotations

from flask_ibi_archive.errors.base import IBIError


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
    :param kind: ``name``, ``internal``, ``unreachable``, ``timeout``, ``tls``, ``cut off``, ``no http`` or
        ``encoding``.
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
