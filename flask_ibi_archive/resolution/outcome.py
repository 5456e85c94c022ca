"""How a resolution ends: with a redirect, or with an alert ([R] 6.2)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from flask_ibi_archive.identifiers import Identifier
from flask_ibi_archive.protocol.messages import Acknowledgment
from flask_ibi_archive.reasons import Reason
from flask_ibi_archive.resolution.answer import ArchiveSource, Question
from flask_ibi_archive.resolution.persistent_url import PersistentUrl


@dataclass(frozen=True, slots=True)
class Redirect:
    """The resolution found a URL for the reader.

    :param url: ASCII; the query pairs that belong to the item must still be added.
    :param content_type: Data or Metadata; None if the answer does not say so.
    :param state: Original or Copy; None if the answer does not say so.
    :param ibi: the forms of the identifier of what the URL leads to, if it has one.
    :param by_language: whether the URL depends on Accept-Language.
    :param question: the question that was answered with the URL.
    """

    url: str
    source: ArchiveSource
    content_type: str | None
    state: str | None
    url_key: str | None
    ibi: tuple[Identifier, ...]
    by_language: bool
    question: Question

    def create_acknowledgment(
        self, client_addresses: tuple[str, ...], persistent_url: str
    ) -> Acknowledgment | None:
        """Return the acknowledgment for the Archive, None if it gave no URL key.

        :param persistent_url: the URL that the reader requested, with host and port.
        Source: [R] 6.2, Table 6.11.
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
    """The resolution needs another round: ask all Archives these questions."""

    questions: tuple[Question, ...]


class AlertKind(str, Enum):
    """Why there is no URL to redirect to."""

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
        """The HTTP status."""
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
    """What a known item does not have; the values complete the sentence "X is known, but"."""

    TRANSLATION = "does not have this translation"
    METADATA = "does not have metadata"
    FORMAT = "does not have metadata in this format"
    EDITION = "no Archive says which edition is the last"
    FILE = "does not have this file"
    ORIGINAL = "no Archive claims to have its Original"
    ACCESS = "no Archive gives a URL that this reader may open"


@dataclass(frozen=True, slots=True)
class Alert:
    """The resolution found no URL to redirect to.

    :param ibi: the identifier of the last question.
    :param sources: the Archives under suspicion, or those that have a tombstone.
    :param silent: number of Archives that did not answer the last questions.
    :param asked: number of Archives that were asked.
    :param timestamp: date of the removal, if known.
    :param reason: what is wrong with a malformed URL.
    :param suggestion: the identifier that was probably meant in a malformed URL.
    :param by_language: whether the result depends on Accept-Language.
    :param lack: what the item does not have.
    :param found: what the item has instead, as persistent URLs.
    Source: [R] 6.2.
    """

    kind: AlertKind
    ibi: Identifier | None
    sources: tuple[ArchiveSource, ...] = ()
    silent: int = 0
    asked: int = 0
    timestamp: str | None = None
    reason: Reason | None = None
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
            return f"the chain of items is too long; the resolver stopped at {self.ibi}"
        if self.lack is not None:
            return f"{self.ibi} is known, but {self.lack.value}"
        return f"no Archive has {self.ibi}"
