"""What an answer contains: the relations that it names, as far as the question asks for them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from flask_ibi_archive.identifiers import Identifier
from flask_ibi_archive.protocol.hosts import NO_INNER_HOSTS, InnerHosts
from flask_ibi_archive.protocol.keys import is_key
from flask_ibi_archive.protocol.messages import (
    CONTENT_TYPES,
    DELIVERED_STATES,
    UrlRequest,
    parse_ibi_forms,
)
from flask_ibi_archive.protocol.relation_targets import covers
from flask_ibi_archive.protocol.relations import Step, parse_relation
from flask_ibi_archive.protocol.url_list import NEXT_EDITION
from flask_ibi_archive.protocol.verbs import VerbList
from flask_ibi_archive.resolution.redirect_target import find_usable_url

#: A relation or the beginning of one.
Steps = tuple[Step, ...]

#: Characters of the longest name that is looked at; that of the longest relation has 75 and a
#: format.
MAX_NAME = 256

_TIMESTAMP = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")


@dataclass(frozen=True, slots=True)
class ArchiveSource:
    """An Archive.

    :param service: the IBI of its service.
    :param address: the archiveaddress that it was included with.
    :param is_own: whether it is the Archive that resolves here itself, whose URLs are no
        stranger's.
    """

    service: str
    address: str
    is_own: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """What every Archive is asked, whoever the reader is.

    :param filepath: with the %XX that it has in the persistent URL.
    """

    ibi: Identifier
    verbs: VerbList
    filepath: str = ""

    def request(self, client_addresses: tuple[str, ...]) -> UrlRequest:
        """Return the message that asks it.

        ArchiveSource: [R] 6.2, Table 6.9.
        """
        return UrlRequest(self.ibi, client_addresses, self.filepath, self.verbs)


@dataclass(frozen=True, slots=True)
class Answer:
    """The URL list that an Archive gave.

    :param pairs: the words of each name; none: the item is unknown there.
    """

    source: ArchiveSource
    question: Question
    pairs: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Offer:
    """What an answer tells of one relation; what is not usable is left out.

    :param ibi: the forms of the identifier, the repository name first; none: not known.
    """

    url: str | None = None
    content_type: str | None = None
    state: str | None = None
    ibi: tuple[Identifier, ...] = ()


@dataclass(frozen=True, slots=True)
class Offers:
    """What an answer tells, by relation.

    :param named: the relations of which a URL or an identifier is told, all of them on the way that
        the verbs spell; a translation without a language in these stands for every one. The empty
        one is the item.
    :param next_edition: the forms of its identifier.
    :param removed: whether it is a tombstone, which offers nothing.
    :param timestamp: of the removal.
    ArchiveSource: [R] 7.2, Tables 7.3 to 7.5.
    """

    named: Mapping[Steps, Offer] = field(default_factory=dict)
    next_edition: tuple[Identifier, ...] = ()
    url_key: str | None = None
    removed: bool = False
    timestamp: str | None = None


def read_offers(answer: Answer, inner_hosts: InnerHosts = NO_INNER_HOSTS) -> Offers:
    """Return what an answer offers; nothing is refused, what is strange is passed over.

    :param inner_hosts: whereto a reader may be led though they are no public ones.
    """
    pairs = answer.pairs
    if pairs.get("state") == ("Deleted",):
        words = pairs.get("timestamp", ())
        is_moment = len(words) == 1 and _TIMESTAMP.fullmatch(words[0]) is not None
        return Offers(removed=True, timestamp=words[0] if is_moment else None)
    path = answer.question.verbs.relation.steps
    named: dict[Steps, Offer] = {}
    for name in pairs:
        prefix, dot, rest = name.partition(".")
        if prefix not in ("url", "ibi") or len(name) > MAX_NAME:
            continue
        try:
            steps = parse_relation(dot + rest).steps
        except ValueError:
            continue
        if len(steps) > len(path) or not all(map(covers, path, steps)) or steps in named:
            continue
        offer = _read_offer(pairs, dot + rest, answer.source, inner_hosts)
        if offer.url is not None or offer.ibi:
            named[steps] = offer
    key = pairs.get("urlkey", ())
    return Offers(
        named,
        _read_ibi(pairs.get(NEXT_EDITION, ())),
        key[0] if len(key) == 1 and is_key(key[0]) else None,
    )


def _read_offer(
    pairs: Mapping[str, tuple[str, ...]],
    relation: str,
    source: ArchiveSource,
    inner_hosts: InnerHosts,
) -> Offer:
    address = None if source.is_own else source.address
    return Offer(
        find_usable_url(pairs.get(f"url{relation}", ()), address, inner_hosts),
        _read_word(pairs.get(f"contenttype{relation}", ()), CONTENT_TYPES),
        _read_word(pairs.get(f"state{relation}", ()), DELIVERED_STATES),
        _read_ibi(pairs.get(f"ibi{relation}", ())),
    )


def _read_word(words: Sequence[str], right: AbstractSet[str]) -> str | None:
    return words[0] if len(words) == 1 and words[0] in right else None


def _read_ibi(words: Sequence[str]) -> tuple[Identifier, ...]:
    try:
        return parse_ibi_forms(words)
    except ValueError:
        return ()
