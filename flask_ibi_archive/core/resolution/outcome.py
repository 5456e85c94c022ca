"""The outcomes of a resolution: a redirect, or an alert with links to other parts ([R] 6.2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum

from flask_ibi_archive.core.identifiers.grammar import Identifier
from flask_ibi_archive.core.protocol.hosts import NO_INNER_HOSTS, InnerHosts
from flask_ibi_archive.core.protocol.messages import Acknowledgment
from flask_ibi_archive.core.protocol.relations import Relation, Step, StepKind, VerbList
from flask_ibi_archive.core.resolution.answer import Answer, ArchiveSource, Question, parse_answer
from flask_ibi_archive.core.resolution.persistent_url import PersistentUrl
from flask_ibi_archive.errors import Reason, ask_if_meant


@dataclass(frozen=True, slots=True)
class Redirect:
    """A redirect to the URL of an answer.

    :param url: the URL in ASCII, without the query pairs of the persistent URL.
    :param source: the Archive that sent the answer, or the actor that registered the document.
    :param content_type: Data or Metadata, or None if the answer contains no content type.
    :param state: Original or Copy, or None if the answer contains no state.
    :param url_key: the URL key for the acknowledgment, or None if the answer contains no key.
    :param ibi: the identifiers of the item at the URL; () if they are unknown.
    :param depends_on_language: whether the URL depends on Accept-Language.
    :param question: the question that the Archive answered.
    """

    url: str
    source: ArchiveSource
    content_type: str | None
    state: str | None
    url_key: str | None
    ibi: tuple[Identifier, ...]
    depends_on_language: bool
    question: Question

    @property
    def names(self) -> set[Identifier]:
        """All known identifiers of the item at the URL."""
        return {*self.ibi, *(() if self.question.verbs.relation.steps else [self.question.ibi])}

    def create_acknowledgment(
        self, client_addresses: tuple[str, ...], persistent_url: str
    ) -> Acknowledgment | None:
        """Return the acknowledgment for the Archive, or None if the answer had no URL key.

        :param client_addresses: the IP address of the reader, then the IP addresses of the proxies.
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
class NextRound:
    """Another round of questions to all Archives is needed."""

    questions: tuple[Question, ...]


class AlertKind(str, Enum):
    """The reasons for an alert.

    MALFORMED: the requested URL is not a persistent URL.
    UNKNOWN: no Archive has the item.
    MISSING: the item is known, but the requested relation, file or Original is missing.
    REMOVED: the item was removed.
    SUSPECTS: several sources claim to have the same Original.
    SILENT: nothing was found, and some Archives did not answer.
    LOOP: the answers form a cycle: they lead back to an earlier question.
    TOO_LONG: the maximum number of rounds was reached.
    """

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
        """The HTTP status of the response."""
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


class MissingPart(str, Enum):
    """The missing part of a known item.

    Each value is the end of a sentence that begins with "X is known, but".
    """

    TRANSLATION = "does not have this translation"
    METADATA = "does not have metadata"
    FORMAT = "does not have metadata in this format"
    EDITION = "no Archive says which edition is the last"
    FILE = "does not have this file"
    ORIGINAL = "no Archive claims to have its Original"
    ACCESS = "no Archive has a URL that this reader may open"


@dataclass(frozen=True, slots=True)
class Alert:
    """An explanation for the reader why the persistent URL does not lead to a redirect.

    :param ibi: the identifier of the last question, or None if the URL is malformed.
    :param sources: the Archives and actors that claim to have the same Original, or the Archives
        that removed the item.
    :param silent: the number of Archives that did not answer the last questions.
    :param asked: the number of Archives that received the last questions.
    :param timestamp: the date when the item was removed, or None if the date is unknown.
    :param reason: the error in a malformed URL, otherwise None.
    :param suggestion: the identifier that the reader probably meant, if the URL is malformed.
    :param depends_on_language: whether the alert depends on Accept-Language.
    :param missing_part: the missing part of the item.
    :param removed: the related items that were removed.
    :param is_found: whether an Archive knows the item, but not the requested part of it, while
        other Archives did not answer.
    :param claimants: the Archives that claim to have the item, but did not answer.
    :param is_conflict: whether the sources also claim the same Original in their published lists.
        Then the resolver has told their administrators.
    :param conflict: the number of this conflict at the resolver. None if it is unknown.
    :param alias: the requested foreign identifier that no Archive claims. Then ``ibi`` is None.
    :param alternatives: the persistent URLs of other parts of the item, such as its metadata.
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
    depends_on_language: bool = False
    missing_part: MissingPart | None = None
    removed: frozenset[Identifier] = frozenset()
    alternatives: tuple[PersistentUrl, ...] = ()
    is_found: bool = False
    claimants: tuple[ArchiveSource, ...] = ()
    is_conflict: bool = False
    conflict: int | None = None
    alias: str | None = None

    @property
    def summary(self) -> str:
        """The alert as one line of English text."""
        silent = f"{self.silent} of {self.asked} Archives did not answer"
        if self.kind is AlertKind.MALFORMED:
            return f"this is not a persistent URL: {self.reason}{ask_if_meant(self.suggestion)}"
        if self.kind is AlertKind.REMOVED:
            when = f" on {self.timestamp[:10]}" if self.timestamp else ""
            return f"{self.ibi} was removed{when}"
        if self.kind is AlertKind.SUSPECTS:
            names = _name_sources(self.sources)
            return f"more than one source claims to have the Original of {self.ibi}: {names}"
        if self.kind is AlertKind.SILENT:
            if self.claimants:
                return f"{_name_sources(self.claimants)} has {self.ibi}, but did not answer"
            if self.sources:
                return f"{self.ibi} was removed from an Archive, but {silent}"
            if self.is_found:
                return f"{self.ibi} was found, but not what was requested of it; {silent}"
            return f"{self.ibi} was not found, but {silent}"
        if self.kind is AlertKind.LOOP:
            return f"the answers about {self.ibi} form a cycle"
        if self.kind is AlertKind.TOO_LONG:
            return f"the chain of items is too long; the search stopped at {self.ibi}"
        if self.missing_part is not None:
            return f"{self.ibi} is known, but {self.missing_part.value}"
        return f"no Archive has {self.ibi or self.alias}"


def _name_sources(sources: tuple[ArchiveSource, ...]) -> str:
    return ", ".join(f"{source.service} at {source.address}" for source in sources)


#: The outcome of a round of questions.
Outcome = Redirect | NextRound | Alert

_TRANSLATION = Step(StepKind.TRANSLATION)

#: The requests for parts of any item, whatever formats and languages the item has.
_ALTERNATIVES = (
    VerbList(Relation((_TRANSLATION,))),
    VerbList(Relation((Step(StepKind.METADATA),))),
    VerbList(Relation((Step(StepKind.METADATA, "oai_dc"),))),
    VerbList(file_list=True),
)


def ask_for_alternatives(alert: Alert) -> list[Question]:
    """Return questions about other parts of an item, after an alert that a part is missing.

    :returns: [] if the alert names no item.
    """
    return [Question(alert.ibi, verbs) for verbs in _ALTERNATIVES if alert.ibi is not None]


def add_alternatives(
    alert: Alert, answers: Iterable[Answer], inner_hosts: InnerHosts = NO_INNER_HOSTS
) -> Alert:
    """Add alternatives to an alert: the parts for which answers contain a URL or an identifier.

    Removed items are left out. The list of files has no identifier of its own.

    :param answers: answers to :func:`ask_for_alternatives`.
    :param inner_hosts: the internal hosts to which the reader may be redirected.
    """
    found: set[PersistentUrl] = set()
    for answer in answers:
        verbs = answer.question.verbs
        for steps, entry in parse_answer(answer, inner_hosts).entries.items():
            # a translation without a language means the item itself
            is_other = steps and steps[-1] != _TRANSLATION
            is_list = verbs.file_list and entry.url is not None
            is_removed = not alert.removed.isdisjoint(entry.ibi)
            is_whole = len(steps) == len(verbs.relation.steps) and not is_removed
            if is_whole and (is_other or is_list):
                part = VerbList(Relation(steps), verbs.file_list)
                found.add(PersistentUrl(answer.question.ibi, part))
    return replace(alert, alternatives=tuple(sorted(found, key=_order_alternatives)))


def _order_alternatives(url: PersistentUrl) -> tuple[bool, str]:
    return url.verbs.file_list, url.verbs.relation.name
