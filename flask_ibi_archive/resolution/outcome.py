"""How a resolution ends: with a redirect, or with an alert ([R] 6.2)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from flask_ibi_archive.identifiers import Identifier
from flask_ibi_archive.protocol.messages import Acknowledgment
from flask_ibi_archive.resolution.answer import ArchiveSource, Question
from flask_ibi_archive.resolution.persistent_url import PersistentUrl


@dataclass(frozen=True, slots=True)
class Redirect:
    """The resolution is settled: the reader goes to a URL.

    :param url: ASCII; pairs that belong to the item are still to be added.
    :param content_type: Data or Metadata, where the answer says so; likewise the others.
    :param ibi: the identifier of what the URL leads to, where it has one.
    :param by_language: whether another reader, with another Accept-Language, might go elsewhere.
    :param question: the one that was answered with the URL.
    """

    url: str
    source: ArchiveSource
    content_type: str | None
    state: str | None
    url_key: str | None
    ibi: tuple[Identifier, ...]
    by_language: bool
    question: Question

    def acknowledgment(
        self, client_addresses: tuple[str, ...], persistent_url: str
    ) -> Acknowledgment | None:
        """Return the message that thanks the Archive, None where it gave no key to do so.

        :param persistent_url: what was asked for, with host and port.
        ArchiveSource: [R] 6.2, Table 6.11.
        """
        if self.url_key is None:
            return None
        return Acknowledgment(
            client_addresses,
            self.content_type,
            self.state,
            self.url,
            persistent_url,
            self.url_key,
            self.ibi or None,
        )


@dataclass(frozen=True, slots=True)
class Ask:
    """All Archives are to be asked on; these are the questions of the next round."""

    questions: tuple[Question, ...]


class AlertKind(str, Enum):
    """Why there is nothing to redirect to."""

    MALFORMED = "malformed"
    UNKNOWN = "unknown"
    MISSING = "missing"
    REMOVED = "removed"
    SUSPECTS = "suspects"
    SILENT = "silent"
    LOOP = "loop"
    TOO_LONG = "too_long"

    @property
    def status(self) -> int:
        """The status of HTTP."""
        return _STATUSES[self]


_STATUSES = {
    AlertKind.MALFORMED: 400,
    AlertKind.UNKNOWN: 404,
    AlertKind.MISSING: 404,
    AlertKind.REMOVED: 410,
    AlertKind.SUSPECTS: 409,
    AlertKind.SILENT: 504,
    AlertKind.LOOP: 508,
    AlertKind.TOO_LONG: 508,
}


class Lack(str, Enum):
    """What an item that is known does not have; the values end the sentence "X is known, but"."""

    TRANSLATION = "does not have this translation"
    METADATA = "does not have metadata"
    FORMAT = "does not have metadata in this format"
    EDITION = "no Archive says which edition is the last"
    FILE = "does not have this file"
    ORIGINAL = "no Archive claims to have its Original"
    ACCESS = "no Archive gives a URL that this reader may open"


@dataclass(frozen=True, slots=True)
class Alert:
    """The resolution is settled: there is nothing to redirect to.

    :param ibi: the identifier that was asked for last.
    :param sources: the Archives under suspicion, or where the tombstones are.
    :param lack: what the item does not have.
    :param found: what there is of the item instead, as persistent URLs.
    :param silent: how many Archives did not answer the last questions.
    :param asked: how many were asked.
    :param timestamp: of the removal, where one is told.
    :param reason: what is wrong with a malformed URL.
    :param suggestion: the identifier that was probably meant in it.
    :param by_language: whether Accept-Language mattered.
    ArchiveSource: [R] 6.2.
    """

    kind: AlertKind
    ibi: Identifier | None
    sources: tuple[ArchiveSource, ...] = ()
    silent: int = 0
    asked: int = 0
    timestamp: str | None = None
    reason: str = ""
    suggestion: str | None = None
    by_language: bool = False
    lack: Lack | None = None
    found: tuple[PersistentUrl, ...] = ()

    @property
    def summary(self) -> str:
        """The alert in one line of English."""
        silent = f"{self.silent} of {self.asked} Archives did not answer"
        if self.kind is AlertKind.MALFORMED:
            hint = f"; did you mean {self.suggestion}?" if self.suggestion else ""
            return f"this is no persistent URL: {self.reason}{hint}"
        if self.kind is AlertKind.REMOVED:
            when = f" on {self.timestamp[:10]}" if self.timestamp else ""
            return f"{self.ibi} was removed{when}"
        if self.kind is AlertKind.SUSPECTS:
            names = ", ".join(f"{source.service} at {source.address}" for source in self.sources)
            return f"more than one Archive claims to have the Original of {self.ibi}: {names}"
        if self.kind is AlertKind.SILENT:
            if self.sources:
                return f"{self.ibi} was removed from an Archive, but {silent}"
            return f"{self.ibi} was not found, but {silent}"
        if self.kind is AlertKind.LOOP:
            return f"the answers about {self.ibi} go round in circles"
        if self.kind is AlertKind.TOO_LONG:
            return f"the chain of items is too long; {self.ibi} is where the resolver stopped"
        if self.lack is not None:
            return f"{self.ibi} is known, but {self.lack.value}"
        return f"no Archive has {self.ibi}"
