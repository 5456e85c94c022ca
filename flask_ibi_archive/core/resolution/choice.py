"""The choice among the answers of a resolution: a redirect, another round of questions, an alert.

A persistent URL names an item and a path: the steps that lead from the item to what the reader
wants, such as the last edition and then its metadata. In a round, all Archives get the same
questions. An Archive knows its own items, and the identifiers of the items to which its own items
refer. So an answer contains the URL at the end of the path, or only identifiers of items on the
path.

A step to a translation without a language is *open*: the reader's languages decide. A *candidate*
is an answer together with one choice of languages for the open steps. It follows the path as far as
the answer goes, and is one of three things:

- It has a redirect: the answer contains an acceptable URL for the whole path.
- It leads to a follow-up question, along a *route*. This question is about the last item on the
  path that the answer names. Or it is about the same item, but changes the step where the answer
  stops: it omits the step, changes the language, or asks for the next edition. If a question
  contains only the first steps of the path, the other steps are *remaining*.
- It is a dead end. A candidate also becomes a dead end if all answers to the follow-up question say
  that the item was removed. Only if this item is a last edition, the edition before it is used
  instead.

The same answer with the next best language is another candidate. The steps that failed are
*rejected*.

:meth:`Analysis._choose` decides about a set of candidates. The first rule that applies counts:

1. A redirect is taken. Every redirect is right, so the first one ends the resolution at once. There
   are two exceptions. If the reader requires the Original, all answers are awaited; if two sources
   claim to have the Original of the same item, the outcome is an alert. And a redirect to the item
   itself, in place of a translation, waits for the answers about the translation.
2. Questions that were not asked yet are the next round. Questions beyond :data:`MAX_QUESTIONS` are
   postponed to the round after that, and come first there.
3. For a question that was asked already, the earlier answers are candidates again, on a new route.
4. Otherwise, all candidates are dead ends. Postponed candidates are tried, then other languages:
   the choice that was made last is replaced first, then the choices in earlier rounds. If nothing
   helps, the outcome is an alert. While an Archive is silent that may have the item in the chosen
   language, no other language is used: the reader must learn that there is a translation.

These rules lose no way to the item: a rule has used each candidate, or the candidate is an origin
of an open question, or the candidate is kept as postponed or as a dead end. The resolution always
ends: no question is asked twice, no answer is used twice with the same remaining steps, and rounds
and changes of language are limited. The order of the answers only matters among equals: the first
redirect wins, and the last questions are postponed. An alert says no more than is known: while an
Archive is silent, an item is neither unknown nor removed; and "removed" is said only of the item
that the reader named.

:class:`Analysis` sends no questions and does not wait. From the same answers, it always makes the
same decisions, so it may be created anew and replayed when a late answer arrives::

    analysis = Analysis(requested, ranges)
    while True:
        for answer in ask_all_archives(analysis.questions):
            if redirect := analysis.add_answer(answer):
                return redirect
        outcome = analysis.finish_round()
        if not isinstance(outcome, NextRound):
            return outcome

If the outcome is an alert about a missing part, :mod:`.outcome` finds other parts of the item.
Source: [R] 6.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property

from flask_ibi_archive.core.identifiers.grammar import Form, Identifier
from flask_ibi_archive.core.protocol import languages
from flask_ibi_archive.core.protocol.hosts import NO_INNER_HOSTS, InnerHosts
from flask_ibi_archive.core.protocol.relations import Relation, Step, StepKind, VerbList
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.resolution.answer import (
    NO_ENTRY,
    Answer,
    AnswerContent,
    ArchiveSource,
    Question,
    RelationEntry,
    Steps,
    parse_answer,
)
from flask_ibi_archive.core.resolution.outcome import (
    Alert,
    AlertKind,
    MissingPart,
    NextRound,
    Outcome,
    Redirect,
)
from flask_ibi_archive.core.resolution.persistent_url import PersistentUrl

#: Maximum number of rounds of questions in one resolution.
MAX_ROUNDS = 16

#: Maximum number of questions in one round.
MAX_QUESTIONS = 4

#: Maximum number of attempts with other languages after dead ends.
MAX_LANGUAGE_RETRIES = 64

_LAST_EDITION = Step(StepKind.LAST_EDITION)
#: Stands for the question for all languages among the rejected steps. No path has these steps.
_ALL_LANGUAGES: Steps = (Step(StepKind.TRANSLATION),) * 2
_MISSING_PARTS = {
    StepKind.LAST_EDITION: MissingPart.EDITION,
    StepKind.TRANSLATION: MissingPart.TRANSLATION,
    StepKind.METADATA: MissingPart.METADATA,
}


@dataclass(frozen=True, eq=False)
class Route:
    """A follow-up question for the Archives, and the candidates that led to this question.

    :param questions: the same question with each known identifier of the item; a repository name
        comes first. Only the first question is asked.
    :param remaining: the steps of the persistent URL that follow the steps of the question.
    :param length: how many steps of the earlier question lead to the item of this question.
    """

    questions: tuple[Question, ...]
    remaining: Steps = ()
    length: int = 0
    origins: tuple[Candidate, ...] = ()

    @property
    def question(self) -> Question:
        """The question that is asked."""
        return self.questions[0]

    @cached_property
    def visited(self) -> frozenset[tuple[Question, Steps]]:
        """Pairs (question, remaining steps): of this route, and of all routes that led to it."""
        here = frozenset([(self.question, self.remaining)])
        return here.union(*[origin.route.visited for origin in self.origins])

    def has_same_question(self, other: Route) -> bool:
        """Return whether another route has the same question about the same item."""
        is_same = not frozenset(self.questions).isdisjoint(other.questions)
        return is_same and self.remaining == other.remaining


def _join_routes(candidates: Iterable[Candidate]) -> list[Route]:
    """Return the follow-up routes of some candidates; routes with the same question are joined.

    The routes are sorted by ``length``, the largest first.
    """
    routes: list[Route] = []
    found = [candidate.follow_up for candidate in candidates if candidate.follow_up]
    for route in sorted(found, key=lambda route: -route.length):
        routes.append(route)
        # the new route may show that two earlier ones are about the same item
        same = [other for other in routes if other.has_same_question(route)]
        questions = sorted({each for other in same for each in other.questions}, key=_order_by_form)
        origins = tuple([origin for other in same for origin in other.origins])
        joined = replace(route, questions=tuple(questions), origins=origins)
        routes = [
            joined if other is same[0] else other for other in routes if other not in same[1:]
        ]
    return routes


def _order_by_form(question: Question) -> tuple[bool, str]:
    return question.ibi.form is not Form.REP, question.ibi.text


@dataclass(eq=False)
class Candidate:
    """A possible way from one answer to the requested URL.

    :param route: the route that led to the question of the answer.
    :param rejected: beginnings of the path that were tried without success. In each, the last step
        is the wrong one: the chosen language, or a last edition that was removed.
    :ivar chosen: the first steps of the question, as far as the answer contains them. An open
        translation step has the chosen language.
    :ivar choice: the steps to reject so that the same answer gives the next candidate; or None.
    :ivar has_language: whether a language was chosen, here or earlier on the route. False if no
        translation suits the reader, so that the item itself is used.
    :ivar depends_on_language: whether Accept-Language influenced the question or the choice here.
    """

    answer: Answer
    content: AnswerContent
    route: Route
    reader: languages.ReaderPreferences
    rejected: frozenset[Steps] = frozenset()

    def __post_init__(self) -> None:
        origins = self.route.origins
        self.path: tuple[Step, ...] = self.route.questions[0].verbs.relation.steps
        self.chosen: Steps = ()
        self.choice: Steps | None = None
        self.has_language: bool = any(origin.has_language for origin in origins)
        self.depends_on_language: bool = any(origin.depends_on_language for origin in origins)
        for step in self.path:
            ahead = self._follow(step)
            if ahead is None:
                break
            self.chosen = ahead

    # --- the steps that the answer contains ------------------------------------------------------

    def _follow(self, step: Step) -> Steps | None:
        """Return the chosen steps with one more step, or None if the candidate stops before it."""
        is_open, shorter = step.is_any_translation, _drop_country(step)
        ahead = self._choose_language() if is_open else (*self.chosen, step)
        if ahead is None:
            return None
        if ahead in self.rejected:
            self.follow_up = None
            if step == _LAST_EDITION:
                self.follow_up = self._ask_without_step()
            elif shorter:
                self.follow_up = self._ask((*self.chosen, shorter, *self._ahead))
            return None
        # Metadata may lack the format although a translation of the metadata has the format. Then
        # the answer only contains the relation with the translation.
        may_be_missing = is_open or (_has_format(step) and len(ahead) < len(self.path))
        entries = self.content.entries
        if not (may_be_missing or any(steps[: len(ahead)] == ahead for steps in entries)):
            return None
        if is_open or shorter:
            self.choice = ahead
            self.has_language |= not is_open
        return ahead

    def _choose_language(self) -> Steps | None:
        """Return the chosen steps with the best translation, or None if the candidate ends here."""
        length, ranges, entries = len(self.chosen), self.reader.ranges, self.content.entries
        longer = {steps[: length + 1] for steps in entries if len(steps) > length}
        offered = {steps for steps in longer if steps[:-1] == self.chosen}
        if not offered:
            return None
        self.depends_on_language = True
        acceptable = [steps[-1].parameter for steps in offered - self.rejected]
        language = languages.find_language(ranges, list(filter(None, acceptable)))
        is_best = language is not None and languages.is_first_choice(ranges, language)
        # If an Archive has a URL for the whole relation, its answer may contain only this relation,
        # without items of other Archives. If the answer also contains the relation that ends with
        # this step, the answer contains all translations.
        is_complete = is_best or length + 1 == len(self.path) or not offered.isdisjoint(entries)
        if self.reader.has_languages and not is_complete and _ALL_LANGUAGES not in self.rejected:
            self.choice = _ALL_LANGUAGES
            self.follow_up = self._ask(self.chosen + self._current, self._ahead)
            return None
        self.has_language |= language is not None
        if language:
            return (*self.chosen, Step(StepKind.TRANSLATION, language))
        untranslated = self._find_untranslated(offered)
        if untranslated is None:
            self.follow_up = self._ask_without_step()
        return untranslated

    def _find_untranslated(self, offered: AbstractSet[Steps]) -> Steps | None:
        """Return the steps to the offered translation that is the item itself, or None.

        This translation has no language, or the same identifier as the item.

        :param offered: the steps to each translation in the answer.
        """
        forms = self._get_ibi(self.chosen)
        for ahead in sorted(offered, key=lambda steps: steps[-1].name):
            if ahead[-1].is_any_translation or not set(forms).isdisjoint(self._get_ibi(ahead)):
                return ahead
        return None

    def _get_ibi(self, steps: Steps) -> tuple[Identifier, ...]:
        """Return the identifiers of the item to which steps lead; () if they are unknown."""
        return self.content.entries.get(steps, NO_ENTRY).ibi

    @property
    def _current(self) -> Steps:
        """The first step that the answer lacks, as a tuple; () if the answer contains all steps."""
        return self.path[len(self.chosen) : len(self.chosen) + 1]

    @property
    def _ahead(self) -> Steps:
        """The steps after the current one, and the remaining steps."""
        return self.path[len(self.chosen) + 1 :] + self.route.remaining

    # --- where the candidate leads ---------------------------------------------------------------

    @property
    def entry(self) -> RelationEntry:
        """The values of the answer for all steps of the question; NO_ENTRY if steps are missing."""
        return NO_ENTRY if self._current else self.content.entries.get(self.chosen, NO_ENTRY)

    @cached_property
    def redirect(self) -> Redirect | None:
        """The redirect to the URL of the answer, or None if the answer has no acceptable URL."""
        entry = self.entry
        if entry.url is None or self.route.remaining:
            return None
        if self.reader.requires_original and entry.state != State.ORIGINAL:
            return None
        return Redirect(
            entry.url,
            self.answer.source,
            entry.content_type,
            entry.state,
            self.content.url_key,
            entry.ibi,
            self.depends_on_language,
            self.answer.question,
        )

    @cached_property
    def follow_up(self) -> Route | None:
        """The route with the next question, or None if the answer leads to no question.

        :meth:`_follow` and :meth:`_choose_language` may set this attribute to another value.
        """
        path, current = self.path + self.route.remaining, self._current
        forms = {self.route.question.ibi, *self._get_ibi(())}
        for length in range(len(self.chosen), 0, -1):
            ibi = self._get_ibi(self.chosen[:length])
            steps = (*filter(_has_format, self.chosen[:length]), *path[length:])
            # metadata may be their own metadata: then the next question would be the same question
            if ibi and not (steps == path and not forms.isdisjoint(ibi)):
                return self._ask(steps, (), ibi, length)
        if not current and (route := self._ask_in_parts()):
            return route
        if self.path[:1] == (_LAST_EDITION,) and self.content.next_edition:
            return self._ask(path, (), self.content.next_edition)
        is_open = bool(current) and current[0].is_any_translation
        if is_open and (not self.chosen or self.chosen in self.content.entries):
            return self._ask_without_step()  # the answer contains no translation
        return None

    def _ask_in_parts(self) -> Route | None:
        """Return the next route if the answer contains all steps of the question; or None."""
        remaining, last = self.route.remaining, self.chosen[-1:]
        if self.reader.requires_original and self.entry.url and len(self.chosen) > 1:
            # The metadata of a Copy may have no identifier, and then do not lead to the metadata of
            # the Original. So the Original is found first.
            return self._ask(self.chosen[:-1], last + remaining)
        if remaining and last and last[0].kind is StepKind.TRANSLATION:
            front = self.chosen[:-1] if last[0].is_any_translation else self.chosen
            return self._ask(front + remaining)
        return None

    def _ask_without_step(self) -> Route:
        """Return the route that omits the current step, as if it led back to the same item."""
        if ibi := self._get_ibi(self.chosen) if self.chosen else ():
            steps = (*filter(_has_format, self.chosen), *self._ahead)
            return self._ask(steps, (), ibi, len(self.chosen))
        return self._ask(self.chosen + self._ahead)

    def _ask(
        self, steps: Steps, remaining: Steps = (), forms: Sequence[Identifier] = (), length: int = 0
    ) -> Route:
        """Return a route with a new question, about the same item if ``forms`` is ().

        :param forms: the identifiers of the item of the question.
        """
        asked = self.route.question
        verbs = VerbList(Relation(steps), asked.verbs.file_list)
        questions = [Question(ibi, verbs, asked.filepath) for ibi in forms or [asked.ibi]]
        return Route(tuple(questions), remaining, length, (self,))

    @property
    def questions(self) -> tuple[Question, ...]:
        """The follow-up question, once for each identifier of the item; () if there is none."""
        return self.follow_up.questions if self.follow_up else ()

    @property
    def is_cycle(self) -> bool:
        """Whether the route to this candidate already contains the follow-up question."""
        remaining = self.follow_up.remaining if self.follow_up else ()
        return any((question, remaining) in self.route.visited for question in self.questions)

    # --- other candidates of the same answer -----------------------------------------------------

    def pass_over_edition(self) -> Candidate | None:
        """Return a candidate that skips the removed edition of the follow-up question.

        The edition before the removed one is then the last edition.

        :returns: None if the follow-up question is not about an edition.
        """
        length = self._find_missing_step()
        steps = (*self.chosen[:length], *self.path[length : length + 1])
        return self._reject(steps) if steps[-1] == _LAST_EDITION else None

    def find_next_language(self) -> Candidate | None:
        """Return the candidate with the next best language, or None if no language is left."""
        if self.follow_up is None and any(map(_drop_country, self._current)):
            return self._reject(self.chosen + self._current)  # xx follows the missing xx-YY
        return None if self.choice is None else self._reject(self.choice)

    def _reject(self, steps: Steps) -> Candidate:
        return replace(self, rejected=self.rejected | {steps})

    # --- what is missing -------------------------------------------------------------------------

    @property
    def contains_item(self) -> bool:
        """Whether the answer contains the requested item, with or without a usable URL."""
        is_last = bool(self.entry.ibi) and self.follow_up is None
        return not self.route.remaining and (self.entry.url is not None or is_last)

    @property
    def missing_part(self) -> tuple[Identifier, MissingPart]:
        """``(ibi, part)``: the last known item on the path, and the part that this item lacks."""
        question, length = self.route.question, self._find_missing_step()
        forms = self._get_ibi(self.chosen[:length]) if self.follow_up and length else ()
        ibi = forms[0] if forms else question.ibi
        for step in (self.path + self.route.remaining)[length:]:
            return ibi, MissingPart.FORMAT if _has_format(step) else _MISSING_PARTS[step.kind]
        if self.entry.url is not None:
            return ibi, MissingPart.ORIGINAL
        is_file = question.filepath or question.verbs.file_list
        return ibi, MissingPart.FILE if is_file else MissingPart.ACCESS

    def _find_missing_step(self) -> int:
        """Return the index of the step that leads to the missing part."""
        if self.follow_up is None:
            return len(self.chosen)
        # no answer to the follow-up question came: the item of this question is missing
        return max(self.follow_up.length, 1) - 1


def _drop_country(step: Step) -> Step | None:
    """Return the step ``.translation(xx)`` for a step ``.translation(xx-YY)``, otherwise None."""
    language, dash, _ = (step.parameter or "").partition("-")
    is_country = bool(dash) and step.kind is StepKind.TRANSLATION
    return Step(StepKind.TRANSLATION, language) if is_country else None


def _has_format(step: Step) -> bool:
    return step.kind is StepKind.METADATA and step.parameter is not None


class Analysis:
    """The state of one resolution: the answers so far and the questions of the current round.

    :param wanted: the persistent URL that the reader requested.
    :param ranges: the languages that the reader prefers.
    :param max_rounds: the maximum number of rounds of questions.
    :param inner_hosts: the internal hosts to which the reader may be redirected.
    :ivar questions: the questions of the current round. Every Archive receives these questions.
    :ivar waits_for_all: whether a redirect must wait for all answers of a round. This is so if the
        reader accepts only the Original.
    Source: [R] 6.2.
    """

    def __init__(
        self,
        wanted: PersistentUrl,
        ranges: Sequence[languages.LanguageRange] = (),
        max_rounds: int = MAX_ROUNDS,
        inner_hosts: InnerHosts = NO_INNER_HOSTS,
    ) -> None:
        self.waits_for_all: bool = wanted.requires_original
        self._reader = languages.ReaderPreferences(tuple(ranges), wanted.requires_original)
        self._max_rounds = max_rounds
        self._inner_hosts = inner_hosts
        self._rounds = 0
        #: The questions that were asked, each with the remaining steps of the routes to it.
        self._asked: dict[Question, set[Steps]] = {}
        #: The candidates of finished rounds, by the question that was answered.
        self._earlier: dict[Question, list[Candidate]] = {}
        #: Questions whose item was found. The URL of the item may be unusable.
        self._found: set[Question] = set()
        #: Questions to which only tombstones came, with each form of the identifier.
        self._removed: set[Question] = set()
        #: Groups of dead ends. Other languages may be tried for each group.
        self._dead_ends: list[list[Candidate]] = []
        #: Candidates whose follow-up questions did not fit into the next round.
        self._postponed: list[Candidate] = []
        #: The candidates of the last round that had new ends of routes.
        self._known: list[Candidate] = []
        self._has_cycle = False
        #: Whether an Archive did not answer a question about an item in a chosen language.
        self._is_language_silent = False
        self._begin_round([Route((Question(wanted.ibi, wanted.verbs, wanted.path),))])

    def _begin_round(self, routes: Iterable[Route]) -> None:
        self._routes: dict[Question, Route] = {}
        for route in routes:
            question = route.questions[0]
            self._routes.setdefault(question, route)
            self._asked.setdefault(question, set()).add(route.remaining)
        self.questions: tuple[Question, ...] = tuple(self._routes)
        self._rounds += 1
        self._candidates: list[Candidate] = []
        #: Answers that an item was removed, each with the date of the removal.
        self._tombstones: list[tuple[Answer, str | None]] = []
        #: Archives that did not answer, but claim to have the Original that is required, each with
        #: the identifier of the item.
        self._claims: list[tuple[ArchiveSource, set[Identifier]]] = []

    def add_answer(self, answer: Answer) -> Redirect | None:
        """Add an answer to a question of the current round.

        Answers to other questions are ignored.

        :returns: the redirect to the URL of the answer; the resolution is then at its end. None if
            the answer has no usable URL, or if :attr:`waits_for_all` is True.
        """
        route = self._routes.get(answer.question)
        if route is None:
            return None
        content = parse_answer(answer, self._inner_hosts)
        if content.is_tombstone:
            self._tombstones.append((answer, content.timestamp))
        elif content.entries or content.next_edition:
            candidate = Candidate(answer, content, route, self._reader)
            self._candidates.append(candidate)
            # the item itself is right only if nobody has the translation that is asked for
            if self.waits_for_all:
                return None
            if candidate.has_language or not any(
                origin.has_language for way in self._routes.values() for origin in way.origins
            ):
                return candidate.redirect
        return None

    def add_silence(self, source: ArchiveSource, question: Question, state: State | None) -> None:
        """Note that an Archive did not answer. A claim of the Archive may replace the answer.

        :param question: a question of the current round.
        :param state: the state that the Archive claims: Deleted, or Original if the reader accepts
            only the Original. None if the claim cannot replace the answer. It is always None if
            :meth:`names_item` returns False.
        """
        if state is State.DELETED:
            self._tombstones.append((Answer(source, question, {}), None))
            return
        origins = self._routes[question].origins
        self._is_language_silent |= any(origin.has_language for origin in origins)
        if state is not None:
            self._claims.append((source, {question.ibi}))

    def names_item(self, question: Question) -> bool:
        """Return whether the reader wants the item of a question itself, not a related item."""
        return not question.verbs.relation.steps  # with remaining steps, a question has steps, too

    def has_follow_up(self) -> bool:
        """Return whether an answer of this round leads to a new follow-up question."""
        return not self._is_last_round() and any(
            candidate.follow_up and self._asked.keys().isdisjoint(candidate.questions)
            for candidate in self._candidates
        )

    def finish_round(self, silent: int = 0, asked: int = 0) -> Outcome:
        """Finish the current round and return the outcome.

        :param silent: the number of Archives that did not answer.
        :param asked: the number of Archives that received the questions.
        :returns: :class:`NextRound` if another round has begun. Any other outcome ends the
            resolution.
        """
        current = list(self._candidates)
        for candidate in current:
            self._earlier.setdefault(candidate.route.question, []).append(candidate)
        found = filter(self._was_item_found, current)
        self._found |= {candidate.route.question for candidate in found}
        self._known = list(filter(self._is_end, current)) or self._known
        if not silent:  # an Archive that did not answer may still have the item
            removed = {answer.question for answer, _ in self._tombstones} - self._earlier.keys()
            self._removed.update(*[self._routes[question].questions for question in removed])
        # no answer leads to a removed edition: the candidates before it continue without it
        current += filter(None, map(self._pass_over_edition, self._list_origins()))
        outcome = self._choose(current)
        if outcome is None:
            self._has_cycle |= any(candidate.is_cycle for candidate in current)
            continues = any(candidate.follow_up for candidate in current)
            outcome = self._choose_postponed()  # another way may still lead to the item
            if outcome is None and (self._has_cycle or (continues and self._is_last_round())):
                kind = AlertKind.LOOP if self._has_cycle else AlertKind.TOO_LONG
                outcome = self.create_alert(kind)
        return outcome or self._try_other_languages() or self._create_final_alert(silent, asked)

    # --- the rules -------------------------------------------------------------------------------

    def _choose(self, candidates: Sequence[Candidate]) -> Outcome | None:
        """Decide about some candidates: return the outcome, or None if all are dead ends."""
        candidates = [self._pass_over_edition(candidate) or candidate for candidate in candidates]
        if outcome := self._find_redirect(candidates):
            return outcome
        if not self._find_new_routes(candidates):
            return self._reuse_answers(candidates)
        # Rule 2. Postponed questions come first. Otherwise, an Archive that names new items in each
        # round could delay the postponed questions forever.
        routes = self._find_new_routes([*self._postponed, *candidates])
        if self._is_last_round() or not routes:  # they may join a new question and an asked one
            return None
        # a dead end beside a way that continues is needed if that way fails
        continued = {candidate for route in routes for candidate in route.origins}
        if dead_ends := [candidate for candidate in candidates if candidate not in continued]:
            self._dead_ends.append(dead_ends)
        self._postponed = [
            candidate for route in routes[MAX_QUESTIONS:] for candidate in route.origins
        ]
        self._begin_round(routes[:MAX_QUESTIONS])
        return NextRound(self.questions)

    def _find_redirect(self, candidates: Sequence[Candidate]) -> Redirect | Alert | None:
        """Return the redirect of the first candidate that has one, or an alert (rule 1)."""
        found = [candidate for candidate in candidates if candidate.redirect]
        # anyone can be an actor, so the claims of Archives outweigh those of actors
        found = [candidate for candidate in found if not candidate.answer.source.is_actor] or found
        translations = [candidate for candidate in found if candidate.has_language]
        found = translations if translations or self._is_language_silent else found
        redirects = [candidate.redirect for candidate in found if candidate.redirect]
        if self.waits_for_all:
            claims = [(redirect.source, redirect.names) for redirect in redirects] + self._claims
            item = claims[0][1] if claims else set()
            # another item has another Original; without identifiers, the item may be the same
            same = [source for source, names in claims if names & item or not (names and item)]
            if len(set(same)) > 1:
                return self.create_alert(AlertKind.SUSPECTS, sources=same)
        return redirects[0] if redirects else None

    def _reuse_answers(self, candidates: Sequence[Candidate]) -> Outcome | None:
        """Use earlier answers if a question was asked already; return the outcome (rule 3)."""
        reused: list[Candidate] = []
        for joined in _join_routes(candidates):
            for question in filter(self._earlier.__contains__, joined.questions):
                if joined.remaining not in self._asked[question]:
                    self._asked[question].add(joined.remaining)
                    route = replace(joined, questions=(question,))
                    reused += [replace(earlier, route=route) for earlier in self._earlier[question]]
        if not reused:
            return None
        outcome = self._choose(reused)
        if outcome is None:
            self._dead_ends.append(reused)
        return outcome

    def _choose_postponed(self) -> Outcome | None:
        """Try the postponed candidates; return the outcome, or None without success (rule 4)."""
        postponed, self._postponed = self._postponed, []
        if not postponed:
            return None
        current = self._list_current()
        outcome = self._choose(postponed)
        self._dead_ends.append(postponed if outcome is None else current)
        return outcome

    def _try_other_languages(self) -> Outcome | None:
        """Try other languages for dead ends; return the outcome, or None (rule 4)."""
        if self._is_language_silent:
            return None
        current = self._list_current()
        asked = {question for candidate in current for question in candidate.questions}
        # the last element is tried first; sorting moves answers to the current questions to the end
        self._dead_ends.append(current)
        self._dead_ends.sort(key=lambda ends: any(end.route.question in asked for end in ends))
        for _ in range(MAX_LANGUAGE_RETRIES):
            if not self._dead_ends:
                return None
            candidates = self._dead_ends.pop()
            if any(map(self._was_item_found, candidates)):
                return None  # the item exists in this language, so another one would be wrong
            others: dict[Candidate, None] = {}
            for candidate in candidates:
                other = candidate.find_next_language()
                # without another language, a choice before this question is replaced
                others |= dict.fromkeys(candidate.route.origins if other is None else [other])
            outcome = self._choose(list(others))
            if outcome is not None:
                return outcome
            if others:
                self._dead_ends.append(list(others))
        return None

    def _find_new_routes(self, candidates: Iterable[Candidate]) -> list[Route]:
        """Return the routes of candidates whose question was not asked yet."""
        asked = self._asked.keys()
        return [route for route in _join_routes(candidates) if asked.isdisjoint(route.questions)]

    def _pass_over_edition(self, candidate: Candidate) -> Candidate | None:
        """Return another candidate if all answers say that the edition was removed, or None."""
        is_removed = not self._removed.isdisjoint(candidate.questions)
        return candidate.pass_over_edition() if is_removed else None

    def _list_origins(self) -> list[Candidate]:
        """Return the earlier candidates from which the questions of this round were made."""
        return [origin for route in self._routes.values() for origin in route.origins]

    def _list_current(self) -> list[Candidate]:
        """Return the candidates of this round, or those of the round before if there are none."""
        return self._candidates or self._list_origins()

    def _is_last_round(self) -> bool:
        return self._rounds >= self._max_rounds

    def _is_end(self, candidate: Candidate) -> bool:
        """Return whether the follow-up question of a candidate got no answer."""
        return self._earlier.keys().isdisjoint(candidate.questions)

    def _was_item_found(self, candidate: Candidate) -> bool:
        """Return whether the requested item was found. The URL of the item may be unusable."""
        return candidate.contains_item or not self._found.isdisjoint(candidate.questions)

    # --- alerts ----------------------------------------------------------------------------------

    def _create_final_alert(self, silent: int, asked: int) -> Alert:
        """Return the alert for the case that no language led to the requested item."""
        # in later rounds, the tombstone is not that of the item that the reader named
        if self._tombstones and not self._candidates and (silent or self._rounds == 1):
            ibi = self._tombstones[0][0].question.ibi
            tombstones = [entry for entry in self._tombstones if entry[0].question.ibi == ibi]
            timestamps = [timestamp for _, timestamp in tombstones if timestamp is not None]
            # an Archive that did not answer may still have the item
            kind = AlertKind.SILENT if silent else AlertKind.REMOVED
            sources = [answer.source for answer, _ in tombstones]
            alert = self.create_alert(kind, silent, asked, sources)
            return replace(alert, ibi=ibi, timestamp=max(timestamps, default=None))
        if silent:
            return self.create_alert(AlertKind.SILENT, silent, asked)
        if self._known:
            nearest = max(reversed(self._known), key=self._measure_progress)
            ibi, part = nearest.missing_part
            # if an item has a next edition that no Archive has, the requested item is unknown
            if part is not MissingPart.EDITION or self._candidates or self._tombstones:
                alert = self.create_alert(AlertKind.MISSING, silent, asked)
                removed = frozenset([question.ibi for question in self._removed])
                return replace(alert, ibi=ibi, missing_part=part, removed=removed)
        return self.create_alert(AlertKind.UNKNOWN, silent, asked)

    def _measure_progress(self, candidate: Candidate) -> tuple[bool, bool, int]:
        return self._is_end(candidate), candidate.entry != NO_ENTRY, len(candidate.chosen)

    def create_alert(
        self,
        kind: AlertKind,
        silent: int = 0,
        asked: int = 0,
        sources: Iterable[ArchiveSource] = (),
    ) -> Alert:
        """Return an alert about the item of the first question of the current round."""
        ibi, sources = self.questions[0].ibi, tuple(dict.fromkeys(sources))
        is_found = bool(silent) and any(question.ibi == ibi for question in self._earlier)
        candidates = [*self._list_origins(), *self._candidates]
        depends = any(candidate.depends_on_language for candidate in candidates)
        return Alert(
            kind, ibi, sources, silent, asked, depends_on_language=depends, is_found=is_found
        )
