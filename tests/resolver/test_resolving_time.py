"""Whom a resolution waits for, and how long: the seconds are those of a network where nobody has to
wait.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import pytest
from support.resolving import ORIGINAL, X, Y, goes_on, leads, name_of, wants

from flask_ibi_archive.protocol.messages import UrlRequest, parse_request
from flask_ibi_archive.protocol.pairs import parse_pairs
from flask_ibi_archive.protocol.query import decode_query_string
from flask_ibi_archive.resolution.outcome import Alert, AlertKind, Redirect
from flask_ibi_archive.resolver.circuit_breaker import PATIENCE, CircuitBreaker
from flask_ibi_archive.resolver.directory import IncludedArchive
from flask_ibi_archive.resolver.fan_out import Failure, Reply, Target
from flask_ibi_archive.resolver.fan_out import Result as Ended
from flask_ibi_archive.resolver.resolving import Resolution
from flask_ibi_archive.resolver.rounds import GRACE, HEAD_START
from flask_ibi_archive.resolver.trace import Answered, Decided, TraceEvent

HERE, THERE = "http://here.br/a.pdf", "http://there.br/b.pdf"
EDITION, OTHER_EDITION = (leads(url, relation=".lastedition") for url in (HERE, THERE))
DEADLINE = 20.0
#: An answer that never comes, and what is no answer.
NEVER, NONSENSE = 1e9, None

#: What an Archive answers to a question, and after how many seconds. Everything else it answers at
#: once with nothing: it is unknown there.
Habits: TypeAlias = Mapping[str, "tuple[float, str | None]"]


class Network:
    """Archives, numbered from 1, that answer after some seconds of a clock that waits for nobody."""

    def __init__(self, *archives: Habits) -> None:
        self.habits = dict(enumerate(archives, 1))
        self.archives = [
            IncludedArchive(number, f"a.br/service/2000/01.01.00.{number:02}", f"a{number}.br")
            for number in self.habits
        ]
        self.now = 0.0
        #: Who was asked what, and when.
        self.asked: list[tuple[float, int, str]] = []

    def ask(self, targets: Sequence[Target], seconds: float, onto: Exchange | None) -> Exchange:
        """Put questions, as :meth:`~flask_ibi_archive.resolver.fan_out.FanOut.ask` does."""
        exchange = onto or Exchange(self)
        for target in targets:
            request = parse_request(decode_query_string(target.url.partition("?")[2]))
            assert isinstance(request, UrlRequest)
            number, name = target.archive.id, name_of(request)
            self.asked.append((round(self.now, 6), number, name))
            took, text = self.habits[number].get(name, (0.0, ""))
            ended: Ended = Failure(target, "answers nonsense", took)
            if text is not None:
                ended = Reply(target, parse_pairs(text), took)
            heapq.heappush(exchange.coming, (self.now + took, len(self.asked), ended))
        return exchange

    def resolve(
        self,
        text: str,
        hinted: int | None = None,
        health: CircuitBreaker | None = None,
        trace: Callable[[TraceEvent], None] | None = None,
        max_rounds: int = 16,
    ) -> Redirect | Alert:
        """Resolve a persistent URL."""
        fan_out: Any = self

        def clock() -> float:
            return self.now

        resolution = Resolution(
            wants(text),
            self.archives,
            hinted,
            fan_out,
            health or CircuitBreaker(clock),
            deadline=DEADLINE,
            max_rounds=max_rounds,
            trace=trace,
            clock=clock,
        )
        return resolution.run().outcome

    def times(self, name: str) -> dict[int, float]:
        """Return when each Archive was asked a question."""
        return {number: moment for moment, number, asked in self.asked if asked == name}


class Exchange:
    """Questions and the answers that come."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.coming: list[tuple[float, int, Ended]] = []

    @property
    def pending(self) -> int:
        return len(self.coming)

    def next(self, seconds: float) -> Ended | None:
        """Return what comes next; the clock goes on till then."""
        if not self.coming:
            return None
        until = self.network.now + seconds
        if self.coming[0][0] > until:
            self.network.now = until
            return None
        moment, _, ended = heapq.heappop(self.coming)
        self.network.now = max(self.network.now, moment)
        return ended

    def drop(self) -> None:
        """Hear no more of it."""
        self.coming.clear()


def url_of(outcome: Redirect | Alert) -> str:
    assert isinstance(outcome, Redirect), outcome
    return outcome.url


def silence_of(outcome: Redirect | Alert) -> tuple[AlertKind, int, int]:
    assert isinstance(outcome, Alert), outcome
    return outcome.kind, outcome.silent, outcome.asked


# --- the first answer, and the deadline ----------------------------------------------------------


def test_the_reader_waits_for_the_fastest_usable_url() -> None:
    network = Network(
        {X: (3, leads(HERE))},
        {X: (0.5, leads("javascript:alert(1)"))},
        {X: (2, leads(THERE))},
        {X: (0.1, NONSENSE)},
    )
    decided: list[TraceEvent] = []
    assert url_of(network.resolve(X, trace=decided.append)) == THERE
    assert network.now == 2
    [last] = [event for event in decided if isinstance(event, Decided)]
    assert last.late == 1


def test_where_the_original_is_required_the_slowest_is_waited_for() -> None:
    network = Network({X: (3, leads(HERE))}, {X: (1, leads(THERE, "Copy"))}, {X: (9, NONSENSE)})
    assert url_of(network.resolve(f"{X}{ORIGINAL}")) == HERE
    assert network.now == 9
    # one that claims it is believed, whoever is silent
    network = Network({X: (3, leads(HERE))}, {X: (NEVER, "")})
    assert url_of(network.resolve(f"{X}{ORIGINAL}")) == HERE
    assert network.now == DEADLINE


@pytest.mark.parametrize("more", ["", ORIGINAL])
def test_at_the_deadline_who_has_not_answered_is_silent(more: str) -> None:
    network = Network({X: (NEVER, "")}, {X: (1, "")}, {X: (2, NONSENSE)})
    assert silence_of(network.resolve(f"{X}{more}")) == (AlertKind.SILENT, 2, 3)
    assert network.now == DEADLINE


@pytest.mark.parametrize("more", ["", ORIGINAL])
def test_nothing_is_waited_for_when_all_have_answered(more: str) -> None:
    network = Network({X: (1, "")}, {X: (2, "")})
    assert silence_of(network.resolve(f"{X}{more}")) == (AlertKind.UNKNOWN, 0, 2)
    assert network.now == 2


def test_the_deadline_is_that_of_all_rounds() -> None:
    network = Network(
        {f"{X}!": (15, goes_on(Y)), f"{Y}!": (10, EDITION)}, {f"{X}!": (15, ""), f"{Y}!": (1, "")}
    )
    assert silence_of(network.resolve(f"{X}!")) == (AlertKind.SILENT, 1, 2)
    assert network.now == DEADLINE


def test_when_the_time_is_over_no_further_question_is_put() -> None:
    network = Network({f"{X}!": (NEVER, "")}, {f"{X}!": (1, goes_on(Y))})
    outcome = network.resolve(f"{X}!{ORIGINAL}")
    assert silence_of(outcome) == (AlertKind.SILENT, 2, 2)
    assert isinstance(outcome, Alert)
    assert str(outcome.ibi) == Y
    assert network.times(f"{Y}!") == {}


def test_what_has_come_in_time_counts_however_late_it_is_looked_at() -> None:
    network = Network({X: (1, "")}, {X: (2, leads(HERE))})

    def delay(event: TraceEvent) -> None:
        if isinstance(event, Answered):
            network.now += DEADLINE

    assert url_of(network.resolve(X, trace=delay)) == HERE


# --- one knows how to go on ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("took", "waits"),
    [(0.0, GRACE), (0.05, GRACE), (1.0, 2.0), (9.0, DEADLINE - 9.0)],
    ids=["at once", "fast", "slow", "near the deadline"],
)
def test_others_are_waited_for_as_long_again_as_the_one_that_goes_on(
    took: float, waits: float
) -> None:
    network = Network({f"{X}!": (NEVER, "")}, {f"{X}!": (took, goes_on(Y))})
    network.resolve(f"{X}!")
    times = network.times(f"{Y}!")
    if took + waits < DEADLINE:
        assert times == {1: took + waits, 2: took + waits}
    else:
        assert times == {}


def test_a_second_one_that_goes_on_does_not_prolong_it() -> None:
    goes = goes_on(Y)
    network = Network({f"{X}!": (NEVER, "")}, {f"{X}!": (0.1, goes)}, {f"{X}!": (0.2, goes)})
    network.resolve(f"{X}!")
    assert network.times(f"{Y}!")[1] == 0.1 + GRACE


def test_one_that_has_the_url_meanwhile_settles_it() -> None:
    network = Network({f"{X}!": (0.2, EDITION)}, {f"{X}!": (0.0, goes_on(Y))})
    assert url_of(network.resolve(f"{X}!")) == HERE
    assert network.now == 0.2


def test_the_next_round_begins_at_once_when_all_have_answered() -> None:
    network = Network({f"{X}!": (0.1, "")}, {f"{X}!": (0.05, goes_on(Y))})
    network.resolve(f"{X}!")
    assert network.times(f"{Y}!") == {1: 0.1, 2: 0.1}


def test_answers_that_name_nothing_to_go_on_with_hurry_nobody() -> None:
    network = Network({X: (9, leads(HERE))}, {X: (0.0, "")}, {X: (0.0, "state Deleted")})
    assert url_of(network.resolve(X)) == HERE
    assert network.now == 9


def test_where_the_original_is_required_nobody_is_hurried() -> None:
    network = Network({f"{X}!": (9, EDITION)}, {f"{X}!": (0.0, goes_on(Y))})
    assert url_of(network.resolve(f"{X}!{ORIGINAL}")) == HERE
    assert network.now == 9


def test_who_was_not_waited_for_may_know_more() -> None:
    network = Network({f"{X}!": (NEVER, "")}, {f"{X}!": (0.0, goes_on(Y))}, {})
    assert silence_of(network.resolve(f"{X}!")) == (AlertKind.SILENT, 1, 3)
    assert network.now == DEADLINE


@pytest.mark.parametrize(
    "rest",
    [{}, {f"{Y}!": (0.0, "state Deleted")}, {f"{Y}!": (0.0, goes_on(X))}],
    ids=["is unknown", "was removed", "goes round"],
)
def test_what_leads_nowhere_waits_for_those_that_were_not_waited_for(rest: Habits) -> None:
    network = Network({f"{X}!": (2.0, EDITION)}, {f"{X}!": (0.0, goes_on(Y)), **rest})
    assert url_of(network.resolve(f"{X}!")) == HERE
    assert network.now == GRACE + 2.0
    # they are asked once more, and then all are waited for
    assert [asked for _, number, asked in network.asked if number == 1] == [
        f"{X}!",
        f"{Y}!",
        f"{X}!",
    ]


def test_in_the_last_round_nobody_is_hurried() -> None:
    network = Network({f"{X}!": (1.0, EDITION)}, {f"{X}!": (0.0, goes_on(Y))})
    assert url_of(network.resolve(f"{X}!", max_rounds=1)) == HERE
    assert network.now == 1.0


def test_what_was_answered_is_not_asked_again_nor_who_failed() -> None:
    network = Network(
        {f"{X}!": (3.0, NONSENSE)},
        {f"{X}!": (0.0, goes_on(Y)), f"{Y}!": (0.1, "state Deleted")},
        {f"{X}!": (0.1, NONSENSE)},
    )
    assert silence_of(network.resolve(f"{X}!")) == (AlertKind.SILENT, 2, 3)
    asked = [(number, name) for _, number, name in network.asked]
    assert asked == [*((n, f"{ibi}!") for ibi in (X, Y) for n in (1, 2, 3)), (1, f"{X}!")]
    assert network.now == pytest.approx(GRACE + 0.1 + 3.0)


def test_what_leads_nowhere_is_asked_once_more_and_not_again() -> None:
    network = Network({f"{X}!": (2.0, "")}, {f"{X}!": (0.0, goes_on(Y))})
    assert silence_of(network.resolve(f"{X}!")) == (AlertKind.UNKNOWN, 0, 2)
    assert [name for _, number, name in network.asked if number == 1] == [
        f"{X}!",
        f"{Y}!",
        f"{X}!",
    ]


def test_an_alert_about_what_all_have_answered_is_the_last_word() -> None:
    network = Network({f"{X}!": (0.1, "")}, {f"{X}!": (0.0, goes_on(Y))})
    assert silence_of(network.resolve(f"{X}!")) == (AlertKind.UNKNOWN, 0, 2)
    assert len(network.asked) == 4


# --- the one that a hint names -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("took", "answer", "others_at"),
    [
        (0.0, "", 0.0),
        (0.1, "", 0.1),
        (0.1, NONSENSE, 0.1),
        (0.1, "state Deleted", 0.1),
        (0.1, leads("ftp://a.br/b"), 0.1),
        (NEVER, "", HEAD_START),
        (HEAD_START + 0.1, leads(THERE), HEAD_START),
    ],
)
def test_others_are_asked_when_the_hinted_one_does_not_settle_it(
    took: float, answer: str | None, others_at: float
) -> None:
    network = Network({X: (0.05, leads(HERE))}, {X: (took, answer)}, {})
    assert url_of(network.resolve(X, hinted=2)) == HERE
    assert network.times(X) == {2: 0.0, 1: others_at, 3: others_at}
    assert network.now == others_at + 0.05


def test_it_has_its_whole_time_where_there_are_no_others() -> None:
    network = Network({X: (3, leads(HERE))})
    assert url_of(network.resolve(X, hinted=1)) == HERE
    assert network.now == 3


def test_others_are_not_asked_when_it_settles_it() -> None:
    network = Network({}, {X: (0.2, leads(HERE))})
    assert url_of(network.resolve(X, hinted=2)) == HERE
    assert network.times(X) == {2: 0.0}


def test_it_may_settle_it_late() -> None:
    network = Network({X: (3, leads(HERE))}, {X: (1, leads(THERE))})
    assert url_of(network.resolve(X, hinted=2)) == THERE
    assert network.now == 1


def test_it_does_not_decide_alone_how_to_go_on() -> None:
    network = Network({f"{X}!": (0.2, EDITION)}, {f"{X}!": (0.1, goes_on(Y))})
    assert url_of(network.resolve(f"{X}!", hinted=2)) == HERE
    assert network.times(f"{Y}!") == {}


def test_a_hint_is_for_the_first_round() -> None:
    network = Network({f"{X}!": (0.0, goes_on(Y)), f"{Y}!": (NEVER, "")}, {f"{Y}!": (0.0, EDITION)})
    assert url_of(network.resolve(f"{X}!", hinted=1)) == HERE
    assert network.times(f"{Y}!") == {1: 0.0, 2: 0.0}


@pytest.mark.parametrize("hinted", [None, 9], ids=["none", "of one that is not included"])
def test_without_a_hint_all_are_asked_at_once(hinted: int | None) -> None:
    network = Network({X: (0.1, leads(HERE))}, {})
    network.resolve(X, hinted)
    assert network.times(X) == {1: 0.0, 2: 0.0}


def test_where_the_original_is_required_no_hint_counts() -> None:
    network = Network({X: (0.1, leads(HERE))}, {X: (0.1, leads(THERE))})
    assert silence_of(network.resolve(f"{X}{ORIGINAL}", hinted=2))[0] is AlertKind.SUSPECTS
    assert network.times(X) == {1: 0.0, 2: 0.0}


def test_one_that_is_hinted_at_and_skipped_holds_nobody_up() -> None:
    network = Network({X: (0.1, leads(HERE))}, {X: (0.0, leads(THERE))})
    health = CircuitBreaker(lambda: 0.0)
    for _ in range(PATIENCE):
        health.took(2, False)
    assert url_of(network.resolve(X, 2, health)) == HERE
    assert network.asked == [(0.0, 1, X)]


# --- several questions in a round ----------------------------------------------------------------


def test_every_archive_is_asked_all_questions_of_a_round() -> None:
    last = "a.br/z/2001/01.01.00.00"
    network = Network(
        {f"{X}!": (0.1, goes_on(Y)), f"{Y}!": (0.1, NONSENSE)},
        {f"{X}!": (0.1, goes_on(last)), f"{last}!": (0.3, OTHER_EDITION)},
    )
    assert url_of(network.resolve(f"{X}!")) == THERE
    for name in (f"{Y}!", f"{last}!"):
        assert network.times(name) == {1: 0.1, 2: 0.1}
    # who fails at one question and leaves the other open is silent once
    network.habits = {
        1: {**network.habits[1], f"{last}!": (NEVER, "")},
        2: {f"{X}!": (0.1, goes_on(last))},
    }
    assert silence_of(network.resolve(f"{X}!")) == (AlertKind.SILENT, 1, 2)


# --- Archives that are skipped, where the Original is required -----------------------------------


def skipping(*numbers: int) -> CircuitBreaker:
    """Return a health that skips some Archives."""
    health = CircuitBreaker(lambda: 0.0)
    for number in numbers:
        for _ in range(PATIENCE):
            health.took(number, False)
    return health


def test_one_that_is_skipped_and_claims_the_original_too_is_named() -> None:
    network = Network({X: (0.1, leads(HERE))}, {X: (0.1 + GRACE / 2, leads(THERE))})
    alert = network.resolve(f"{X}{ORIGINAL}", health=skipping(2))
    assert isinstance(alert, Alert)
    assert alert.kind is AlertKind.SUSPECTS
    assert [source.address for source in alert.sources] == ["a1.br", "a2.br"]


def test_one_that_is_skipped_is_hardly_waited_for() -> None:
    network = Network({X: (0.1, leads(HERE))}, {X: (NEVER, NONSENSE)})
    assert url_of(network.resolve(f"{X}{ORIGINAL}", health=skipping(2))) == HERE
    assert network.now == pytest.approx(0.1 + GRACE)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [((0.1, ""), (AlertKind.UNKNOWN, 0)), ((0.1, NONSENSE), (AlertKind.SILENT, 1))],
    ids=["that answers", "that fails again"],
)
def test_one_that_is_skipped_counts_by_what_it_does(
    answer: tuple[float, str | None], expected: tuple[AlertKind, int]
) -> None:
    network = Network({}, {X: answer})
    alert = network.resolve(f"{X}{ORIGINAL}", health=skipping(2))
    assert isinstance(alert, Alert)
    assert (alert.kind, alert.silent) == expected


def test_where_all_are_skipped_they_are_hardly_waited_for() -> None:
    network = Network({X: (NEVER, NONSENSE)})
    alert = network.resolve(f"{X}{ORIGINAL}", health=skipping(1))
    assert isinstance(alert, Alert)
    assert (alert.kind, alert.silent, network.now) == (AlertKind.SILENT, 1, GRACE)
