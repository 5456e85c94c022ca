"""The resolution of a persistent URL: what to do next, given the answers so far ([R] 6.2).

:class:`Analysis` asks nobody and waits for nobody. It says what to ask all Archives, takes their
answers, and settles on a redirect or an alert::

    analysis = Analysis(wanted, ranges)
    while True:
        for answer in ask(analysis.questions):
            if redirect := analysis.take(answer):
                return redirect
        outcome = analysis.conclude()
        if not isinstance(outcome, Ask):
            return outcome
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from flask_ibi_archive.protocol.hosts import NO_INNER_HOSTS, InnerHosts
from flask_ibi_archive.resolution.answer import Answer, ArchiveSource, Question, read_offers
from flask_ibi_archive.resolution.candidates import Leg, LegKey, Way, find_way, group_ways
from flask_ibi_archive.resolution.languages import LanguageRange, ReaderPreferences
from flask_ibi_archive.resolution.outcome import Alert, AlertKind, Ask, Lack, Redirect
from flask_ibi_archive.resolution.persistent_url import PersistentUrl

#: Rounds of questions at most.
MAX_ROUNDS = 16

#: Questions of one round at most.
MAX_QUESTIONS = 4

#: Other languages that are looked for in answers at most, when one leads nowhere.
MAX_RETREATS = 64


class Analysis:
    """One resolution.

    :param wanted: the persistent URL.
    :param ranges: the languages that the reader prefers.
    :param inner_hosts: whereto the reader may be led though they are no public ones.
    :ivar questions: those of the present round, to be asked of every Archive.
    :ivar waits_for_all: whether no answer settles anything before all have come: the Original is
        required.
    ArchiveSource: [R] 6.2.
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
        #: What came of the questions of earlier rounds, and what was wanted behind them.
        self._heard: dict[Question, list[Way]] = {}
        self._walked: set[LegKey] = set()
        #: Questions of which what they ask for is there.
        self._reached: set[Question] = set()
        #: Ways that led nowhere; behind them other languages may be tried.
        self._given_up: list[list[Way]] = []
        #: Ways whose questions were too many for their round.
        self._put_off: list[Way] = []
        #: Whether a way led back to where it came from, and whether one led on after the last
        #: round.
        self._went_round = self._went_too_far = False
        #: The answers of the last round in which an item was known.
        self._known: list[Way] = []
        #: Answers that tell of a removal, and when it was.
        self._tombstones: list[tuple[Answer, str | None]] = []
        question = Question(wanted.ibi, wanted.verbs, wanted.path)
        self._begin([Leg(question, trail=frozenset({(question, ())}))])

    def take(self, answer: Answer) -> Redirect | None:
        """Take an answer of the present round; another one is passed over.

        :returns: the redirect that settles the resolution: the first usable URL. None as long as
            all answers are waited for.
        """
        leg = self._legs.get(answer.question)
        if leg is None:
            return None
        offers = read_offers(answer, self._inner_hosts)
        if offers.removed:
            if not leg.by_pick:  # else it is the tombstone of another item than the one asked for
                self._tombstones.append((answer, offers.timestamp))
        elif offers.named or offers.next_edition:
            way = find_way(answer, offers, leg, self._reader)
            self._ways.append(way)
            if not self.waits_for_all:
                return way.redirect(self._reader)
        return None

    def can_ask_on(self) -> bool:
        """Tell whether an answer of this round names an identifier to go on with."""
        return not self._is_last_round() and any(
            way.onward and self._asked.isdisjoint(way.questions()) for way in self._ways
        )

    def conclude(self, silent: int = 0, asked: int = 0) -> Redirect | Ask | Alert:
        """Return what to do now that the round is over.

        :param silent: how many Archives did not answer.
        :param asked: how many were asked.
        :returns: after :class:`Ask` the next round has begun; anything else settles the resolution.
        """
        for way in self._ways:
            self._heard.setdefault(way.leg.question, []).append(way)
        self._reached |= {way.leg.question for way in self._ways if self._is_reached(way)}
        ended = self._ways
        self._known = ended or self._known
        outcome = self._settle(ended)
        if outcome is None:
            self._went_round = self._went_round or any(map(self._goes_round, ended))
            self._went_too_far = self._went_too_far or (
                self._is_last_round() and any(way.onward for way in ended)
            )
            outcome = self._ask_put_off()
        if outcome is None and self._went_round:
            outcome = self._alert(AlertKind.LOOP)
        if outcome is None and self._went_too_far:
            outcome = self._alert(AlertKind.TOO_LONG)
        return outcome or self._retreat() or self._find_nothing(silent, asked)

    def _settle(self, ways: Sequence[Way]) -> Redirect | Ask | Alert | None:
        """Return what to do by what answers came to, None where they lead nowhere new."""
        redirects = [found for way in ways if (found := way.redirect(self._reader))]
        if redirects and self.waits_for_all:
            claimants = tuple(dict.fromkeys(found.source for found in redirects))
            if len(claimants) > 1:
                return self._alert(AlertKind.SUSPECTS, sources=claimants)
        if redirects:
            return redirects[0]
        if not self._next_legs(ways):
            return self._settle_again(ways)
        if self._is_last_round():
            return None
        # What waits goes first: who names something new in each round must not keep the others
        # waiting.
        put_off, self._put_off = self._put_off, []
        legs = self._next_legs([*put_off, *ways])
        behind = {way for leg in legs for way in leg.behind}
        if given_up := [way for way in ways if way not in behind]:
            self._given_up.append(given_up)
        self._put_off += [way for leg in legs[MAX_QUESTIONS:] for way in leg.behind]
        self._begin(legs[:MAX_QUESTIONS])
        return Ask(self.questions)

    def _ask_put_off(self) -> Redirect | Ask | Alert | None:
        """Go on with what was put off, when what went before it led nowhere."""
        put_off, self._put_off = self._put_off, []
        if not put_off:
            return None
        led_here, tombstones = self._led_here(), self._tombstones
        outcome = self._settle(put_off)
        self._given_up.append(put_off if outcome is None else led_here)
        # as if all had been asked in one round
        self._tombstones = tombstones
        return outcome

    def _settle_again(self, ways: Sequence[Way]) -> Redirect | Ask | Alert | None:
        """Look once more at the answers to questions that were asked to go on otherwise."""
        again = []
        for group in group_ways(ways):
            for question in self._heard.keys() & group.questions():
                leg = group.leg(question)
                if leg.key not in self._walked:
                    self._walked.add(leg.key)
                    again += [
                        find_way(heard.answer, heard.offers, leg, self._reader)
                        for heard in self._heard[question]
                    ]
        if not again:
            return None
        outcome = self._settle(again)
        if outcome is None:
            self._given_up.append(again)
        return outcome

    def _goes_round(self, way: Way) -> bool:
        """Return whether a way leads back to where it came from."""
        if way.onward is None:
            return False
        rest = way.onward.rest
        keys = [(question, rest) for question in way.questions()]
        return not way.leg.trail.isdisjoint(keys)

    def _is_last_round(self) -> bool:
        return self._rounds >= self._max_rounds

    def _begin(self, legs: Iterable[Leg]) -> None:
        self._legs: dict[Question, Leg] = {}
        for leg in legs:
            self._legs.setdefault(leg.question, leg)
            self._walked.add(leg.key)
        self.questions = tuple(self._legs)
        self._asked |= self._legs.keys()
        self._rounds += 1
        self._ways: list[Way] = []
        self._tombstones = []

    def _next_legs(self, ways: Iterable[Way]) -> list[Leg]:
        """Return what to ask on; what was asked already is left out."""
        return [
            group.leg() for group in group_ways(ways) if self._asked.isdisjoint(group.questions())
        ]

    def _retreat(self) -> Redirect | Ask | Alert | None:
        """Try other languages, where the one picked is not to be had: the last choice first."""
        ways = self._led_here()
        asked = {question for way in ways for question in way.questions()}
        # What was given up when others went on, and leads on from here, comes first.
        self._given_up.append(ways)
        self._given_up.sort(key=lambda ways: any(way.leg.question in asked for way in ways))
        for _ in range(MAX_RETREATS):
            if not self._given_up:
                return None
            ways = self._given_up.pop()
            if any(map(self._is_reached, ways)):
                return None
            others: list[Way] = []
            for way in ways:
                other = way.give_way(self._reader)
                others += [other] if other is not None else way.leg.behind
            others = list(dict.fromkeys(others))
            outcome = self._settle(others)
            if outcome is not None:
                return outcome
            if others:
                self._given_up.append(others)
        return None

    def _led_here(self) -> list[Way]:
        """Return the ways of this round, or, where nothing was answered, those that led to its
        questions.
        """
        return self._ways or [way for leg in self._legs.values() for way in leg.behind]

    def _is_reached(self, way: Way) -> bool:
        """Tell whether what was asked for is there, be it out of reach: no other language is tried."""
        return way.is_reached or not self._reached.isdisjoint(way.questions())

    def _find_nothing(self, silent: int, asked: int) -> Alert:
        if self._tombstones and not self._ways:
            removed = self._tombstones[0][0].question.ibi
            tombstones = [one for one in self._tombstones if one[0].question.ibi == removed]
            sources = tuple(dict.fromkeys(answer.source for answer, _ in tombstones))
            moments = [moment for _, moment in tombstones if moment is not None]
            # an Archive that did not answer may still have the item
            kind = AlertKind.SILENT if silent else AlertKind.REMOVED
            alert = self._alert(kind, silent, asked, sources, max(moments, default=None))
            return replace(alert, ibi=removed)
        if silent:
            return self._alert(AlertKind.SILENT, silent, asked)
        ways = sorted(self._known, key=lambda way: (way.reached is not None, way.length))
        nearest = ways[-1] if ways else None
        # an edition that nobody has is an unknown item of its own
        if nearest is None or (nearest.lack is Lack.EDITION and not self._ways):
            return self._alert(AlertKind.UNKNOWN, silent, asked)
        alert = self._alert(AlertKind.MISSING, silent, asked)
        return replace(alert, ibi=nearest.leg.question.ibi, lack=nearest.lack)

    def _alert(
        self,
        kind: AlertKind,
        silent: int = 0,
        asked: int = 0,
        sources: tuple[ArchiveSource, ...] = (),
        timestamp: str | None = None,
    ) -> Alert:
        by_language = any(leg.by_language for leg in self._legs.values())
        return Alert(
            kind,
            self.questions[0].ibi,
            sources,
            silent,
            asked,
            timestamp,
            by_language=by_language or any(way.by_language for way in self._ways),
        )
