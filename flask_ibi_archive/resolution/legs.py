"""The next legs of a resolution: ways that go on with one identifier are one question ([R] 6.2)."""

from __future__ import annotations

from collections.abc import Iterable

from flask_ibi_archive.identifiers import Identifier
from flask_ibi_archive.resolution.answer import Steps
from flask_ibi_archive.resolution.decisions import Question
from flask_ibi_archive.resolution.ways import Leg, Way, best_form


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
