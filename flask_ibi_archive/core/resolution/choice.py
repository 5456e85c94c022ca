"""The choice among the answers of a resolution: a redirect, another round of questions, an alert.

A persistent URL names an item and a path. The path consists of the steps that lead from the item to
what the reader wants: the last edition, a translation, the metadata. In a round, all Archives get
the same questions. An Archive knows its own items, and the identifiers of the items to which its
own items refer. So an answer contains the URL at the end of the path, or the identifier of an item
to which the first steps of the path lead.

A *candidate* is an answer with pairs about the item, together with a choice of languages for the
translation steps without a language. A candidate is in one of three states:

- It has a redirect: the answer contains an acceptable URL for the whole path.
- It has a follow-up question: the rest of the path, about an item that the answer names
  (:mod:`.follow_up`). All answers to this question may say that the item was removed. Then a last
  edition is passed over, and any other step is a dead end.
- It is a dead end. With another language, the same answer may be a new candidate.

:meth:`Analysis._choose` decides about a set of candidates. The first rule that applies counts:

1. A redirect is taken. Every redirect is right, so the first one ends the resolution at once. But
   there can be only one Original: if the Original is required, all answers are awaited, and two
   sources that claim to have that of the same item lead to an alert. And a redirect to the item
   itself in place of its translation waits for the answers about the translation.
2. Follow-up questions that were not asked yet are the next round. Those beyond
   :data:`MAX_QUESTIONS` are postponed; they precede the questions of the round after that.
3. For a follow-up question that was asked already, the earlier answers are candidates again, now
   for another rest of the path.
4. Otherwise, all candidates are dead ends. Postponed candidates are tried, then other languages:
   the choice that was made last is replaced first, then the choices in earlier rounds. If nothing
   helps, the outcome is an alert. While an Archive is silent that may have the item in the chosen
   language, no other language is used: the reader must learn that there is a translation.

These rules lose no way to the item: a rule has used each candidate, or the candidate is an origin
of an open question, or the candidate is kept as postponed or as a dead end. The resolution always
ends: no question is asked twice (``_asked``), no question with the same rest of the path is
continued twice (``_visited``), and rounds and changes of language are limited. Except for rule 1,
the order in which the answers come does not matter, because the other rules see all candidates of a
round together. An alert says no more than is known: while an Archive is silent, an item is neither
unknown nor removed; and "removed" is said only of the item that the reader named.

:class:`Analysis` sends no questions and does not wait. The resolver or an Archive does::

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
from dataclasses import replace

from flask_ibi_archive.core.identifiers import Identifier
from flask_ibi_archive.core.protocol.hosts import NO_INNER_HOSTS, InnerHosts
from flask_ibi_archive.core.protocol.languages import LanguageRange, ReaderPreferences
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.resolution.answer import Answer, ArchiveSource, Question, parse_answer
from flask_ibi_archive.core.resolution.candidates import (
    Candidate,
    QuestionGroup,
    Route,
    RouteKey,
    create_candidate,
    group_candidates,
)
from flask_ibi_archive.core.resolution.outcome import (
    Alert,
    AlertKind,
    MissingPart,
    NextRound,
    Redirect,
)
from flask_ibi_archive.core.resolution.persistent_url import PersistentUrl

#: Maximum number of rounds of questions in one resolution.
MAX_ROUNDS = 16

#: Maximum number of questions in one round.
MAX_QUESTIONS = 4

#: Maximum number of attempts with other languages after dead ends.
MAX_LANGUAGE_RETRIES = 64


class Analysis:
    """The state of one resolution: the answers so far and the questions of the current round.

    :param wanted: the persistent URL that the reader requested.
    :param ranges: the languages that the reader prefers.
    :param max_rounds: the maximum number of rounds of questions.
    :param inner_hosts: the internal hosts to which the reader may be redirected.
    :ivar questions: the questions of the current round. Every Archive receives these questions.
    :ivar waits_for_all: whether all answers of a round are needed before a redirect. This is the
        case if only the Original is acceptable.
    Source: [R] 6.2.
    """

    def __init__(
        self,
        wanted: PersistentUrl,
        ranges: Sequence[LanguageRange] = (),
        max_rounds: int = MAX_ROUNDS,
        inner_hosts: InnerHosts = NO_INNER_HOSTS,
    ) -> None:
        self.waits_for_all = wanted.requires_original
        self._reader = ReaderPreferences(tuple(ranges), wanted.requires_original)
        self._max_rounds = max_rounds
        self._inner_hosts = inner_hosts
        self._rounds = 0
        self._asked: set[Question] = set()
        #: The candidates of finished rounds, by the question that was answered.
        self._earlier: dict[Question, list[Candidate]] = {}
        self._visited: set[RouteKey] = set()
        #: Questions whose item was found. The URL of the item may be unusable.
        self._found: set[Question] = set()
        #: Groups of dead ends. Other languages may be tried for each group.
        self._dead_ends: list[list[Candidate]] = []
        #: Candidates whose follow-up questions did not fit into the next round.
        self._postponed: list[Candidate] = []
        self._has_cycle = self._is_too_long = False
        #: Whether an Archive did not answer a question about an item in a chosen language.
        self._is_language_silent = False
        #: The candidates of the last round that had new ends of routes.
        self._known: list[Candidate] = []
        #: Answers of this round that an item was removed, each with the date of the removal.
        self._tombstones: list[tuple[Answer, str | None]] = []
        #: The questions to which only such answers came, with each form of the identifier.
        self._removed: set[Question] = set()
        question = Question(wanted.ibi, wanted.verbs, wanted.path)
        self._begin_round([Route(question, visited=frozenset({(question, ())}))])

    def add_answer(self, answer: Answer) -> Redirect | None:
        """Add an answer to a question of the current round.

        Answers to other questions are ignored.

        :returns: the redirect to the URL of the answer, which ends the resolution. None if the
            answer has no usable URL, or if all answers of the round are needed.
        """
        route = self._routes.get(answer.question)
        if route is None:
            return None
        content = parse_answer(answer, self._inner_hosts)
        if content.is_tombstone:
            self._tombstones.append((answer, content.timestamp))
        elif content.entries or content.next_edition:
            candidate = create_candidate(answer, route, content, self._reader)
            self._candidates.append(candidate)
            # the item itself is right only if nobody has the translation that is asked for
            is_right = candidate.has_language or not self._asks_for_translation
            if is_right and not self.waits_for_all:
                return candidate.redirect
        return None

    def add_silence(self, source: ArchiveSource, question: Question, state: State | None) -> None:
        """Note that an Archive did not answer, and use its claim in place of the answer.

        :param question: a question of the current round.
        :param state: what the Archive claims: Deleted, or Original if only this is acceptable. None
            if its claim can't stand in for the answer, as always if :meth:`names_item` is false.
        """
        if state is State.DELETED:
            self.add_answer(Answer(source, question, {"state": (state.value,)}))
            return
        self._is_language_silent |= self._routes[question].has_language
        if state is not None:
            self._claims.append((source, {question.ibi}))

    def names_item(self, question: Question) -> bool:
        """Return whether the reader wants the item of a question itself, not a related item."""
        return not (question.verbs.relation.steps or self._routes[question].remaining)

    def has_redirect(self) -> bool:
        """Return whether an answer of this round contains an acceptable URL."""
        return any(candidate.redirect for candidate in self._candidates)

    def has_follow_up(self) -> bool:
        """Return whether an answer of this round leads to a new follow-up question."""
        return not self._is_last_round() and any(
            candidate.follow_up and self._asked.isdisjoint(candidate.questions)
            for candidate in self._candidates
        )

    def finish_round(self, silent: int = 0, asked: int = 0) -> Redirect | NextRound | Alert:
        """Finish the current round and return the outcome.

        :param silent: the number of Archives that did not answer.
        :param asked: the number of Archives that received the questions.
        :returns: :class:`NextRound` if another round has begun. Any other outcome ends the
            resolution.
        """
        current = list(self._candidates)
        for candidate in current:
            self._earlier.setdefault(candidate.route.question, []).append(candidate)
        self._found |= {
            candidate.route.question for candidate in current if self._was_item_found(candidate)
        }
        self._known = list(filter(self._is_end, current)) or self._known
        if not silent:  # an Archive that did not answer may still have the item
            self._removed |= self._list_removed()
        origins = [candidate for route in self._routes.values() for candidate in route.origins]
        # no answer leads to a removed edition: the candidates before it continue without it
        current += filter(None, map(self._pass_over_edition, origins))
        outcome = self._choose(current)
        if outcome is None:
            # another way may still lead to the item, so these alerts come after the postponed ones
            self._has_cycle |= any(map(_is_cycle, current))
            self._is_too_long |= self._is_last_round() and any(
                candidate.follow_up for candidate in current
            )
            outcome = self._choose_postponed()
        if outcome is None and self._has_cycle:
            outcome = self.create_alert(AlertKind.LOOP)
        if outcome is None and self._is_too_long:
            outcome = self.create_alert(AlertKind.TOO_LONG)
        return outcome or self._try_other_languages() or self._create_final_alert(silent, asked)

    def _list_removed(self) -> set[Question]:
        tombstones = {answer.question for answer, _ in self._tombstones}
        removed = tombstones - {candidate.route.question for candidate in self._candidates}
        origins = [
            candidate for question in removed for candidate in self._routes[question].origins
        ]
        return removed.union(*[candidate.questions for candidate in origins])

    def _pass_over_edition(self, candidate: Candidate) -> Candidate | None:
        """Return the candidate to use instead if the next edition was removed, otherwise None."""
        is_removed = not self._removed.isdisjoint(candidate.questions)
        return candidate.pass_over_edition() if is_removed else None

    def _choose(self, candidates: Sequence[Candidate]) -> Redirect | NextRound | Alert | None:
        """Return the outcome for some candidates, or None if all candidates are dead ends."""
        candidates = [self._pass_over_edition(candidate) or candidate for candidate in candidates]
        found = [candidate for candidate in candidates if candidate.redirect]  # rule 1
        # anyone can be an actor, so the claims of Archives outweigh those of actors
        found = [each for each in found if not each.answer.source.is_actor] or found
        translations = [each for each in found if each.has_language]
        found = translations if translations or self._is_language_silent else found
        redirects = [candidate.redirect for candidate in found if candidate.redirect]
        if self.waits_for_all:
            claims = [(redirect.source, redirect.names) for redirect in redirects] + self._claims
            item = claims[0][1] if claims else set()
            # another item has another Original; without identifiers, the item may be the same
            same = [one for one, names in claims if names & item or not (names and item)]
            claimants = tuple(dict.fromkeys(same))
            if len(claimants) > 1:
                return self.create_alert(AlertKind.SUSPECTS, sources=claimants)
        if redirects:
            return redirects[0]
        if not self._new_groups(candidates):
            return self._reuse_answers(candidates)  # rule 3
        if self._is_last_round():
            return None
        # Rule 2. Postponed questions come first. Otherwise, an Archive that names new items in each
        # round could delay the postponed questions forever.
        postponed, self._postponed = self._postponed, []
        routes = [group.create_route() for group in self._new_groups([*postponed, *candidates])]
        # a dead end beside a way that continues is needed if that way fails
        continued = {candidate for route in routes for candidate in route.origins}
        if dead_ends := [candidate for candidate in candidates if candidate not in continued]:
            self._dead_ends.append(dead_ends)
        self._postponed += [
            candidate for route in routes[MAX_QUESTIONS:] for candidate in route.origins
        ]
        self._begin_round(routes[:MAX_QUESTIONS])
        return NextRound(self.questions)

    def _choose_postponed(self) -> Redirect | NextRound | Alert | None:
        """Return the outcome for the postponed candidates, or None if all are dead ends."""
        postponed, self._postponed = self._postponed, []
        if not postponed:
            return None
        origins = self._list_candidates()
        outcome = self._choose(postponed)
        self._dead_ends.append(postponed if outcome is None else origins)
        return outcome

    def _reuse_answers(
        self, candidates: Sequence[Candidate]
    ) -> Redirect | NextRound | Alert | None:
        """Return the outcome if follow-up questions were already answered, otherwise None."""
        reused: list[Candidate] = []
        for group in group_candidates(candidates):
            for question in self._earlier.keys() & group.questions:
                route = group.create_route(question)
                if route.key not in self._visited:
                    self._visited.add(route.key)
                    reused += [
                        create_candidate(earlier.answer, route, earlier.match.content, self._reader)
                        for earlier in self._earlier[question]
                    ]
        if not reused:
            return None
        outcome = self._choose(reused)
        if outcome is None:
            self._dead_ends.append(reused)
        return outcome

    def _is_last_round(self) -> bool:
        return self._rounds >= self._max_rounds

    def _begin_round(self, routes: Iterable[Route]) -> None:
        self._routes: dict[Question, Route] = {}
        for route in routes:
            self._routes.setdefault(route.question, route)
            self._visited.add(route.key)
        self.questions = tuple(self._routes)
        self._asked |= self._routes.keys()
        self._asks_for_translation = any(route.has_language for route in self._routes.values())
        self._rounds += 1
        self._candidates: list[Candidate] = []
        self._tombstones = []
        #: Archives that did not answer, but claim to have the Original that is required, each with
        #: the identifier of the item.
        self._claims: list[tuple[ArchiveSource, set[Identifier]]] = []

    def _new_groups(self, candidates: Iterable[Candidate]) -> list[QuestionGroup]:
        """Return the groups of candidates whose follow-up question was not asked yet."""
        return [
            group
            for group in group_candidates(candidates)
            if self._asked.isdisjoint(group.questions)
        ]

    def _try_other_languages(self) -> Redirect | NextRound | Alert | None:
        """Try other languages for the dead ends; return the outcome, or None without success.

        The language that was chosen last is replaced first.
        """
        if self._is_language_silent:
            return None
        origins = self._list_candidates()
        asked = {question for candidate in origins for question in candidate.questions}
        # the last element is tried first; sorting moves answers to the current questions to the end
        self._dead_ends.append(origins)
        self._dead_ends.sort(
            key=lambda ends: any(candidate.route.question in asked for candidate in ends)
        )
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

    def _list_candidates(self) -> list[Candidate]:
        """Return the candidates of this round.

        If this round has no candidates, return the candidates of the earlier round from which the
        questions of this round were made.
        """
        return self._candidates or [
            candidate for route in self._routes.values() for candidate in route.origins
        ]

    def _was_item_found(self, candidate: Candidate) -> bool:
        """Return whether the requested item was found. The URL of the item may be unusable."""
        return candidate.contains_item or not self._found.isdisjoint(candidate.questions)

    def _create_final_alert(self, silent: int, asked: int) -> Alert:
        """Return the alert for the case that no language led to the requested item."""
        # in later rounds, the tombstone is not that of the item that the reader named
        if self._tombstones and not self._candidates and (silent or self._rounds == 1):
            removed = self._tombstones[0][0].question.ibi
            tombstones = [entry for entry in self._tombstones if entry[0].question.ibi == removed]
            sources = tuple(dict.fromkeys(answer.source for answer, _ in tombstones))
            timestamps = [timestamp for _, timestamp in tombstones if timestamp is not None]
            # an Archive that did not answer may still have the item
            kind = AlertKind.SILENT if silent else AlertKind.REMOVED
            alert = self.create_alert(kind, silent, asked, sources)
            return replace(alert, ibi=removed, timestamp=max(timestamps, default=None))
        if silent:
            return self.create_alert(AlertKind.SILENT, silent, asked)
        nearest = max(reversed(self._known), key=self._measure_progress, default=None)
        # if an item has a next edition that no Archive has, the requested item is unknown
        if nearest is None or (
            nearest.missing_part is MissingPart.EDITION
            and not self._candidates
            and not self._tombstones
        ):
            return self.create_alert(AlertKind.UNKNOWN, silent, asked)
        alert = self.create_alert(AlertKind.MISSING, silent, asked)
        return replace(
            alert,
            ibi=nearest.missing_from,
            missing_part=nearest.missing_part,
            removed=frozenset([question.ibi for question in self._removed]),
        )

    def _is_end(self, candidate: Candidate) -> bool:
        """Return whether no answer to the follow-up question of a candidate came."""
        return self._earlier.keys().isdisjoint(candidate.questions)

    def _measure_progress(self, candidate: Candidate) -> tuple[bool, bool, int]:
        match = candidate.match
        return self._is_end(candidate), match.entry is not None, len(match.chosen)

    def create_alert(
        self,
        kind: AlertKind,
        silent: int = 0,
        asked: int = 0,
        sources: tuple[ArchiveSource, ...] = (),
    ) -> Alert:
        """Return an alert about the item of the first question of the current round."""
        ibi = self.questions[0].ibi
        depends_on_language = any(route.depends_on_language for route in self._routes.values())
        return Alert(
            kind,
            ibi,
            sources,
            silent,
            asked,
            is_found=bool(silent) and any(question.ibi == ibi for question in self._earlier),
            depends_on_language=depends_on_language
            or any(candidate.depends_on_language for candidate in self._candidates),
        )


def _is_cycle(candidate: Candidate) -> bool:
    """Return whether the route to a candidate already contains the follow-up question."""
    if candidate.follow_up is None:
        return False
    remaining = candidate.follow_up.remaining
    return any((question, remaining) in candidate.route.visited for question in candidate.questions)
