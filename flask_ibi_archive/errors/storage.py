"""Errors of the store."""

from __future__ import annotations

from flask_ibi_archive.errors.base import IBIError


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
    """A record of an import file is wrong; nothing of the file was taken, or (``--resume``) what was before it.

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
