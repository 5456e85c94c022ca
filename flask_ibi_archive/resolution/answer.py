"""The content of an Archive's answer: the URL and the identifier of each relation ([R] 7.2).

The choice of the next step of a resolution (``choice``) reads all answers with this module.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from flask_ibi_archive.identifiers import Identifier
from flask_ibi_archive.protocol.hosts import NO_INNER_HOSTS, InnerHosts
from flask_ibi_archive.protocol.messages import (
    CONTENT_TYPES,
    DELIVERED_STATES,
    UrlRequest,
    parse_ibi_forms,
)
from flask_ibi_archive.protocol.registration import is_key
from flask_ibi_archive.protocol.relation_targets import step_matches
from flask_ibi_archive.protocol.relations import Step, parse_relation
from flask_ibi_archive.protocol.url_list import NEXT_EDITION
from flask_ibi_archive.protocol.verbs import VerbList
from flask_ibi_archive.resolution.redirect_target import find_usable_url

#: All steps of a relation, or only the first steps.
Steps = tuple[Step, ...]

#: Maximum length of a pair name. The longest relation has 75 characters, without its format.
MAX_NAME = 256

_TIMESTAMP = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")


@dataclass(frozen=True, slots=True)
class ArchiveSource:
    """The Archive that sent an answer.

    :param service: the IBI of the Archive's service.
    :param address: the address with which the Archive was registered at the resolver.
    :param is_own: whether the Archive is in this process; then its URLs are trusted.
    """

    service: str
    address: str
    is_own: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """A question about one item, which is sent to every Archive.

    :param verbs: the relation and whether the list of files is wanted.
    :param filepath: the path of a file of the item, percent-encoded as in the persistent URL.
    """

    ibi: Identifier
    verbs: VerbList
    filepath: str = ""

    def create_request(self, client_addresses: tuple[str, ...]) -> UrlRequest:
        """Return the urlRequest message for this question.

        :param client_addresses: the IP addresses of the reader, then of the proxies.
        Source: [R] 6.2, Table 6.9.
        """
        return UrlRequest(self.ibi, client_addresses, self.filepath, self.verbs)


@dataclass(frozen=True, slots=True)
class Answer:
    """The URL list that an Archive returned for a question.

    :param pairs: the words of the value of each name; empty if the Archive does not know the item.
    """

    source: ArchiveSource
    question: Question
    pairs: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class RelationEntry:
    """The usable values that an answer contains for one relation.

    :param content_type: Data or Metadata.
    :param state: Original or Copy.
    :param ibi: the forms of the identifier, the repository name first; empty if unknown.
    """

    url: str | None = None
    content_type: str | None = None
    state: str | None = None
    ibi: tuple[Identifier, ...] = ()


NO_ENTRY = RelationEntry()


@dataclass(frozen=True, slots=True)
class AnswerContent:
    """The usable content of an answer.

    :param entries: the relations with a URL or an identifier, by their steps. Only the relation of
        the question and its first steps are included; the empty relation is the item itself.
    :param next_edition: the forms of the next edition's identifier.
    :param url_key: the key with which the use of a URL of this answer is acknowledged.
    :param is_tombstone: whether the item was removed; then there are no entries.
    :param timestamp: the date of the removal.
    Source: [R] 7.2, Tables 7.3 to 7.5.
    """

    entries: Mapping[Steps, RelationEntry] = field(default_factory=dict)
    next_edition: tuple[Identifier, ...] = ()
    url_key: str | None = None
    is_tombstone: bool = False
    timestamp: str | None = None


def parse_answer(answer: Answer, inner_hosts: InnerHosts = NO_INNER_HOSTS) -> AnswerContent:
    """Return the usable content of an answer; unknown and malformed pairs are ignored.

    :param inner_hosts: internal hosts to which readers may be redirected.
    """
    pairs = answer.pairs
    if pairs.get("state") == ("Deleted",):
        words = pairs.get("timestamp", ())
        is_timestamp = len(words) == 1 and _TIMESTAMP.fullmatch(words[0]) is not None
        return AnswerContent(is_tombstone=True, timestamp=words[0] if is_timestamp else None)
    path = answer.question.verbs.relation.steps
    address = None if answer.source.is_own else answer.source.address
    entries: dict[Steps, RelationEntry] = {}
    for name in pairs:
        prefix, dot, rest = name.partition(".")
        if prefix not in ("url", "ibi") or len(name) > MAX_NAME:
            continue
        try:
            steps = parse_relation(dot + rest).steps
        except ValueError:
            continue
        if len(steps) > len(path) or not all(map(step_matches, path, steps)) or steps in entries:
            continue
        entry = _parse_entry(pairs, dot + rest, address, inner_hosts)
        if entry.url is not None or entry.ibi:
            entries[steps] = entry
    key = pairs.get("urlkey", ())
    return AnswerContent(
        entries,
        _parse_ibi(pairs, NEXT_EDITION),
        key[0] if len(key) == 1 and is_key(key[0]) else None,
    )


def _parse_entry(
    pairs: Mapping[str, tuple[str, ...]],
    relation: str,
    address: str | None,
    inner_hosts: InnerHosts,
) -> RelationEntry:
    return RelationEntry(
        find_usable_url(pairs.get(f"url{relation}", ()), address, inner_hosts),
        _find_word(pairs.get(f"contenttype{relation}", ()), CONTENT_TYPES),
        _find_word(pairs.get(f"state{relation}", ()), DELIVERED_STATES),
        _parse_ibi(pairs, f"ibi{relation}"),
    )


def _find_word(words: Sequence[str], allowed: AbstractSet[str]) -> str | None:
    return words[0] if len(words) == 1 and words[0] in allowed else None


def _parse_ibi(pairs: Mapping[str, tuple[str, ...]], name: str) -> tuple[Identifier, ...]:
    if name not in pairs:
        return ()
    try:
        return parse_ibi_forms(pairs[name])
    except ValueError:
        return ()
