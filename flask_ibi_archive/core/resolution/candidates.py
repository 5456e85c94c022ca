"""Candidates: the possible ways from the answers to the requested URL.

A candidate is an answer together with the languages that were chosen for its translations. A
candidate may have a redirect or a follow-up question. A candidate without both is a dead end. Then
another language may lead to another candidate of the same answer. Source: [R] 6.2.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from flask_ibi_archive.core.identifiers import Form, Identifier
from flask_ibi_archive.core.protocol.languages import ReaderPreferences
from flask_ibi_archive.core.protocol.relations import Relation, StepKind, VerbList
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.resolution.answer import Answer, AnswerContent, Question, Steps
from flask_ibi_archive.core.resolution.follow_up import FollowUp, StepMatch, find_follow_up
from flask_ibi_archive.core.resolution.outcome import MissingPart, Redirect

_MISSING_PARTS = {
    StepKind.LAST_EDITION: MissingPart.EDITION,
    StepKind.TRANSLATION: MissingPart.TRANSLATION,
    StepKind.METADATA: MissingPart.METADATA,
}

#: A question, and the remaining steps that follow the steps of the question.
RouteKey = tuple[Question, Steps]


@dataclass(frozen=True, slots=True, eq=False)
class Route:
    """A question, and the earlier questions and answers that led to this question.

    Archives only receive the question.

    :param remaining: the steps that a later question must contain. This tuple is empty if the
        question contains all steps.
    :param visited: the keys of all earlier routes and of this route.
    :param origins: the earlier candidates whose follow-up question is this question.
    :param depends_on_language: whether Accept-Language was used on the route.
    :param has_language: whether a language was chosen on the route, so that the question is about a
        translation.
    """

    question: Question
    remaining: Steps = ()
    visited: frozenset[RouteKey] = frozenset()
    origins: tuple[Candidate, ...] = ()
    depends_on_language: bool = False
    has_language: bool = False

    @property
    def key(self) -> RouteKey:
        """The question and the remaining steps, which distinguish this route from other routes."""
        return self.question, self.remaining


@dataclass(frozen=True, eq=False)
class Candidate:
    """A possible way from one answer to the requested URL.

    :param route: the route that led to the question of the answer.
    :param match: the first steps of the question that the answer contains.
    """

    answer: Answer
    route: Route
    match: StepMatch

    @property
    def depends_on_language(self) -> bool:
        """Whether Accept-Language influenced the question or the choice in the answer."""
        return self.route.depends_on_language or self.match.depends_on_language

    @property
    def has_language(self) -> bool:
        """Whether a language was chosen on the route or in the answer."""
        return self.route.has_language or self.match.has_language

    @cached_property
    def follow_up(self) -> FollowUp | None:
        """The item of the next question, or None if the answer contains no such item."""
        return find_follow_up(self.match, self.route.question, self.route.remaining)

    @cached_property
    def questions(self) -> tuple[Question, ...]:
        """The follow-up question, once with each form of the identifier.

        The question with the repository name is first.
        """
        if self.follow_up is None:
            return ()
        question = self.route.question
        verbs = VerbList(Relation(self.follow_up.steps), question.verbs.file_list)
        return tuple([Question(ibi, verbs, question.filepath) for ibi in self.follow_up.forms])

    @cached_property
    def redirect(self) -> Redirect | None:
        """The redirect to the URL of the answer, or None if the answer has no acceptable URL."""
        entry = self.match.entry
        if entry is None or entry.url is None or self.route.remaining:
            return None
        if self.match.reader.requires_original and entry.state != State.ORIGINAL:
            return None
        return Redirect(
            entry.url,
            self.answer.source,
            entry.content_type,
            entry.state,
            self.match.content.url_key,
            entry.ibi,
            self.depends_on_language,
            self.answer.question,
        )

    @property
    def contains_item(self) -> bool:
        """Whether the answer contains the requested item. The URL of the item may be unusable."""
        entry = self.match.entry
        if entry is None or self.route.remaining:
            return False
        return entry.url is not None or self.follow_up is None

    @property
    def missing_from(self) -> Identifier:
        """The last known item before the missing part."""
        before = self.match.chosen[: self._find_missing_step()] if self.follow_up else ()
        forms = self.match.get_ibi(before) if before else ()
        return forms[0] if forms else self.route.question.ibi

    @property
    def missing_part(self) -> MissingPart:
        """The requested part that the item does not have. Only a dead end has a missing part."""
        question = self.route.question
        steps = self.match.path + self.route.remaining
        length = self._find_missing_step()
        if length < len(steps):
            step = steps[length]
            is_format = step.kind is StepKind.METADATA and step.parameter is not None
            return MissingPart.FORMAT if is_format else _MISSING_PARTS[step.kind]
        if self.match.entry is not None and self.match.entry.url is not None:
            return MissingPart.ORIGINAL
        return (
            MissingPart.FILE
            if question.filepath or question.verbs.file_list
            else MissingPart.ACCESS
        )

    def _find_missing_step(self) -> int:
        """Return the index of the step that leads to the missing part."""
        if self.follow_up is None:
            return len(self.match.chosen)
        # no answer to the follow-up question came: the item of this question is missing
        return max(self.follow_up.length, 1) - 1

    def pass_over_edition(self) -> Candidate | None:
        """Return the candidate without the removed edition to which the follow-up question leads.

        The edition before the removed edition is then the last edition.

        :returns: None if the follow-up question is not about an edition.
        """
        length = self._find_missing_step()
        steps = (*self.match.chosen[:length], *self.match.path[length : length + 1])
        if steps[-1].kind is not StepKind.LAST_EDITION:
            return None
        return Candidate(self.answer, self.route, self.match.reject(steps))

    def find_next_language(self) -> Candidate | None:
        """Return the candidate with the next best language, or None if no language is left."""
        match = self.match.match_next_language(self.follow_up is not None)
        return None if match is None else Candidate(self.answer, self.route, match)


def create_candidate(
    answer: Answer, route: Route, content: AnswerContent, reader: ReaderPreferences
) -> Candidate:
    """Return a candidate for an answer, with the languages that suit the reader best."""
    return Candidate(answer, route, StepMatch(content, route.question.verbs.relation.steps, reader))


class QuestionGroup:
    """The candidates that have the same follow-up question.

    The questions may contain different forms of the same identifier.
    """

    def __init__(self, candidate: Candidate, follow_up: FollowUp) -> None:
        self.candidates = [candidate]
        self.forms: set[Identifier] = set(follow_up.forms)
        self.question = candidate.questions[0]
        self.remaining = follow_up.remaining

    def has_same_question(self, other: QuestionGroup) -> bool:
        """Return whether another group has the same question about the same item."""
        return (
            self.question.verbs == other.question.verbs
            and self.remaining == other.remaining
            and not self.forms.isdisjoint(other.forms)
        )

    def merge(self, other: QuestionGroup) -> None:
        """Add the candidates of another group to this group."""
        self.candidates += other.candidates
        self.forms |= other.forms

    @property
    def questions(self) -> list[Question]:
        """The question of the group, once with each form of the identifier."""
        return [Question(ibi, self.question.verbs, self.question.filepath) for ibi in self.forms]

    def create_route(self, question: Question | None = None) -> Route:
        """Return the route to the question of the group.

        :param question: one of :attr:`questions`. The default is the question with the repository
            name, if the item has one.
        """
        question = question or min(self.questions, key=_order_by_form)
        candidates = self.candidates
        visited = frozenset().union(*[candidate.route.visited for candidate in candidates])
        return Route(
            question,
            self.remaining,
            visited | {(question, self.remaining)},
            tuple(candidates),
            any(candidate.depends_on_language for candidate in candidates),
            any(candidate.has_language for candidate in candidates),
        )


def _order_by_form(question: Question) -> tuple[bool, str]:
    return question.ibi.form is not Form.REP, question.ibi.text


def group_candidates(candidates: Iterable[Candidate]) -> list[QuestionGroup]:
    """Return one group of candidates for each follow-up question.

    The groups are sorted: a question that continues after more steps comes first.
    """
    continued = [
        (candidate, candidate.follow_up)
        for candidate in candidates
        if candidate.follow_up is not None
    ]
    groups: list[QuestionGroup] = []
    for candidate, follow_up in sorted(continued, key=lambda pair: -pair[1].length):
        group = QuestionGroup(candidate, follow_up)
        # the new candidate may show that two groups are about the same item
        first, *others = [*filter(group.has_same_question, groups), group]
        for other in others:
            first.merge(other)
        groups = [other for other in groups if other not in others]
        if first is group:
            groups.append(group)
    return groups
