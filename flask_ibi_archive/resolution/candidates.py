"""The way that one answer opens: a URL, an identifier to go on with, or none ([R] 6.2)."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from flask_ibi_archive.identifiers import Form, Identifier
from flask_ibi_archive.protocol.relations import Relation, StepKind
from flask_ibi_archive.protocol.verbs import VerbList
from flask_ibi_archive.resolution.answer import Answer, Offer, Offers, Question, Steps
from flask_ibi_archive.resolution.follow_up import End, Onward, Walk, find_onward, is_open
from flask_ibi_archive.resolution.languages import ReaderPreferences
from flask_ibi_archive.resolution.outcome import Lack, Redirect
from flask_ibi_archive.resolution.persistent_url import ORIGINAL

_LACKS = {
    StepKind.LAST_EDITION: Lack.EDITION,
    StepKind.TRANSLATION: Lack.TRANSLATION,
    StepKind.METADATA: Lack.METADATA,
}

#: A question, and what is wanted behind it.
LegKey = tuple[Question, Steps]


@dataclass(frozen=True, slots=True, eq=False)
class Leg:
    """A question on the way to the URL, and what belongs to it that no Archive is told.

    :param rest: the steps that come behind those of the question: it asks for a part of the way
        alone, to learn where that leads.
    :param trail: the legs that led to it, itself included.
    :param behind: the ways that led to it, where another language may be tried when it leads
        nowhere.
    :param by_language: whether Accept-Language mattered on the way.
    :param by_pick: whether it asks about an item that was picked by its language on the way.
    """

    question: Question
    rest: Steps = ()
    trail: frozenset[LegKey] = frozenset()
    behind: tuple[Way, ...] = ()
    by_language: bool = False
    by_pick: bool = False

    @property
    def key(self) -> LegKey:
        """What tells it from other legs."""
        return self.question, self.rest


@dataclass(frozen=True, slots=True, eq=False)
class Way:
    """What an answer comes to.

    :param reached: what it tells of all the steps; None: they are not named to their end.
    :param length: how many of the steps were walked through.
    :param picks: the beginnings of the relation that end with a language for which there may be
        another.
    :param refused: those tried in vain.
    :param minds_gaps: whether it counts that a filtered answer does not name all languages.
    """

    answer: Answer
    offers: Offers
    leg: Leg
    reached: Offer | None
    onward: Onward | None
    length: int
    picks: tuple[Steps, ...]
    refused: frozenset[Steps]
    minds_gaps: bool
    ends: End
    by_language: bool

    @property
    def is_reached(self) -> bool:
        """Whether what was asked for is there, and not only the identifier of it."""
        if self.reached is None or self.leg.rest:
            return False
        return self.reached.url is not None or self.onward is None

    @property
    def goes_by_pick(self) -> bool:
        """Whether it goes on with an item that was picked by its language."""
        if self.leg.by_pick or self.onward is None:
            return self.leg.by_pick
        path = self.leg.question.verbs.relation.steps
        return any(
            len(pick) <= self.onward.length
            and is_open(path[len(pick) - 1])
            and pick[-1].parameter is not None
            for pick in self.picks
        )

    @property
    def lack(self) -> Lack:
        """What the item asked about does not have, when the way leads nowhere."""
        question = self.leg.question
        steps = question.verbs.relation.steps + self.leg.rest
        if self.onward is not None:
            return _LACKS[steps[max(self.onward.length, 1) - 1].kind]
        if self.length < len(steps):
            step = steps[self.length]
            is_format = step.kind is StepKind.METADATA and step.parameter is not None
            return Lack.FORMAT if is_format else _LACKS[step.kind]
        if self.reached is not None and self.reached.url is not None:
            return Lack.ORIGINAL
        return Lack.FILE if question.filepath or question.verbs.file_list else Lack.ACCESS

    def redirect(self, reader: ReaderPreferences) -> Redirect | None:
        """Return the redirect to the URL, None where there is none that will do."""
        found = self.reached
        if found is None or found.url is None or self.leg.rest:
            return None
        if reader.requires_original and found.state != ORIGINAL:
            return None
        return Redirect(
            found.url,
            self.answer.source,
            found.content_type,
            found.state,
            self.offers.url_key,
            found.ibi,
            self.by_language,
            self.answer.question,
        )

    def questions(self) -> tuple[Question, ...]:
        """Return the question to go on with, once for each form of the identifier, the repository
        name first.
        """
        if self.onward is None:
            return ()
        asked = self.leg.question
        verbs = VerbList(Relation(self.onward.steps), asked.verbs.file_list)
        return tuple([Question(ibi, verbs, asked.filepath) for ibi in self.onward.forms])

    def give_way(self, reader: ReaderPreferences) -> Way | None:
        """Return the next best way that the answer opens, None where it opens no other."""
        if self.ends is End.GAP:
            return find_way(self.answer, self.offers, self.leg, reader, self.refused, False)
        if not self.picks:
            return None
        refused = self.refused | {self.picks[-1]}
        return find_way(self.answer, self.offers, self.leg, reader, refused, self.minds_gaps)


def find_way(
    answer: Answer,
    offers: Offers,
    leg: Leg,
    reader: ReaderPreferences,
    refused: frozenset[Steps] = frozenset(),
    minds_gaps: bool = True,
) -> Way:
    """Return what an answer comes to when some languages were tried in vain."""
    walk = Walk(offers, leg.question.verbs.relation.steps, reader, refused, minds_gaps)
    end = walk.run()
    onward = find_onward(offers, leg.question, leg.rest, reader, walk.chosen, end)
    picks = walk.picks
    if onward is None and end is End.UNNAMED:
        picks += walk.stated_language()
    return Way(
        answer,
        offers,
        leg,
        offers.named.get(walk.chosen) if end is End.WHOLE else None,
        onward,
        len(walk.chosen),
        tuple(picks),
        refused,
        minds_gaps,
        end,
        leg.by_language or walk.by_language,
    )


def best_form(forms: AbstractSet[Identifier]) -> Identifier:
    """Return the form to ask by: the repository name where it is known."""
    return min(forms, key=lambda ibi: (ibi.form is not Form.REP, ibi.text))


class Group:
    """Ways that go on with one identifier, told by different answers in one form or the other."""

    def __init__(self, way: Way) -> None:
        questions = way.questions()
        self.ways = [way]
        self.forms: set[Identifier] = {question.ibi for question in questions}
        self.question = questions[0]
        self.rest: Steps = way.onward.rest if way.onward else ()

    def shares(self, other: Group) -> bool:
        """Return whether another group asks the same of the same item."""
        return (
            self.question.verbs == other.question.verbs
            and self.rest == other.rest
            and not self.forms.isdisjoint(other.forms)
        )

    def unite(self, other: Group) -> None:
        """Add the ways of another group."""
        self.ways += other.ways
        self.forms |= other.forms

    def questions(self) -> list[Question]:
        """Return the question by each form."""
        asked = self.question
        return [Question(ibi, asked.verbs, asked.filepath) for ibi in self.forms]

    def leg(self, question: Question | None = None) -> Leg:
        """Return the leg on which the question is asked, by the best form unless told."""
        asked = self.question
        question = question or Question(best_form(self.forms), asked.verbs, asked.filepath)
        trail = frozenset().union(*[way.leg.trail for way in self.ways])
        return Leg(
            question,
            self.rest,
            trail | {(question, self.rest)},
            tuple(self.ways),
            any(way.by_language for way in self.ways),
            any(way.goes_by_pick for way in self.ways),
        )


def group_ways(ways: Iterable[Way]) -> list[Group]:
    """Return what ways go on with, the longest prefixes first."""
    groups: list[Group] = []
    onwards = [way for way in ways if way.onward is not None]
    for way in sorted(onwards, key=lambda way: -way.onward.length if way.onward else 0):
        group = Group(way)
        same = [other for other in groups if other.shares(group)]
        for other in same[1:]:
            groups.remove(other)
            same[0].unite(other)
        if same:
            same[0].unite(group)
        else:
            groups.append(group)
    return groups
