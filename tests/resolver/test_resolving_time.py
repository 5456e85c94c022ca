"""How long a resolution waits for each Archive, with a simulated network and clock."""

from __future__ import annotations

import pytest
from support.networks import (
    DEADLINE,
    NEVER,
    NONSENSE,
    Habits,
    Network,
    silence_of,
    url_of,
)
from support.resolving import ORIGINAL, X, Y, goes_on, leads

from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.resolution.outcome import Alert, AlertKind
from flask_ibi_archive.resolver.archives import Claimant
from flask_ibi_archive.resolver.asking import MAX_FAILURES, CircuitBreaker, Reply
from flask_ibi_archive.resolver.resolving import GRACE, HEAD_START, Decided, TraceEvent

HERE, THERE = "http://here.br/a.pdf", "http://there.br/b.pdf"
EDITION, OTHER_EDITION = (leads(url, relation=".lastedition") for url in (HERE, THERE))


# --- the first answer, and the deadline ----------------------------------------------------------


@pytest.mark.rule("R62-11")
def test_the_user_waits_only_for_the_fastest_usable_url() -> None:
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


@pytest.mark.rule("R62-09")
def test_the_slowest_archive_is_waited_for_if_the_original_is_required() -> None:
    network = Network({X: (3, leads(HERE))}, {X: (1, leads(THERE, "Copy"))}, {X: (9, NONSENSE)})
    assert url_of(network.resolve(f"{X}{ORIGINAL}")) == HERE
    assert network.now == 9
    # a single claim is accepted, even if others are silent
    network = Network({X: (3, leads(HERE))}, {X: (NEVER, "")})
    assert url_of(network.resolve(f"{X}{ORIGINAL}")) == HERE
    assert network.now == DEADLINE


@pytest.mark.parametrize("more", ["", ORIGINAL])
def test_archives_without_an_answer_at_the_deadline_are_silent(more: str) -> None:
    network = Network({X: (NEVER, "")}, {X: (1, "")}, {X: (2, NONSENSE)})
    assert silence_of(network.resolve(f"{X}{more}")) == (AlertKind.SILENT, 2, 3)
    assert network.now == DEADLINE


def test_the_deadline_is_for_all_rounds_together() -> None:
    network = Network(
        {f"{X}!": (15, goes_on(Y)), f"{Y}!": (10, EDITION)}, {f"{X}!": (15, ""), f"{Y}!": (1, "")}
    )
    assert silence_of(network.resolve(f"{X}!")) == (AlertKind.SILENT, 1, 2)
    assert network.now == DEADLINE


def test_no_question_is_sent_after_the_deadline() -> None:
    network = Network({f"{X}!": (NEVER, "")}, {f"{X}!": (1, goes_on(Y))})
    outcome = network.resolve(f"{X}!{ORIGINAL}")
    assert silence_of(outcome) == (AlertKind.SILENT, 2, 2)
    assert isinstance(outcome, Alert)
    assert str(outcome.ibi) == Y
    assert network.times(f"{Y}!") == {}


def test_an_answer_in_time_counts_even_if_read_late() -> None:
    network = Network({X: (1, "")}, {X: (2, leads(HERE))})

    def delay(event: TraceEvent) -> None:
        if isinstance(event, Reply):
            network.now += DEADLINE

    assert url_of(network.resolve(X, trace=delay)) == HERE


# --- one knows how to go on ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("took", "waits"), [(0.0, GRACE), (0.05, GRACE), (1.0, 2.0), (9.0, DEADLINE - 9.0)]
)
def test_the_grace_period_depends_on_the_fastest_follow_up(took: float, waits: float) -> None:
    network = Network({f"{X}!": (NEVER, "")}, {f"{X}!": (took, goes_on(Y))})
    network.resolve(f"{X}!")
    times = network.times(f"{Y}!")
    if took + waits < DEADLINE:
        assert times == {1: took + waits, 2: took + waits}
    else:
        assert times == {}


@pytest.mark.parametrize(
    "rest", [{}, {f"{Y}!": (0.0, "state Deleted")}, {f"{Y}!": (0.0, goes_on(X))}]
)
def test_a_resolution_without_result_waits_for_late_archives(rest: Habits) -> None:
    network = Network({f"{X}!": (2.0, EDITION)}, {f"{X}!": (0.0, goes_on(Y)), **rest})
    assert url_of(network.resolve(f"{X}!")) == HERE
    assert network.now == 2.0
    assert 1 in network.times(f"{Y}!")


# --- the one that a hint names -------------------------------------------------------------------


@pytest.mark.rule("R62-05")
@pytest.mark.parametrize(
    ("took", "answer", "others_at"),
    [
        (0.1, "", 0.1),
        (0.1, "state Deleted", 0.1),
        (0.1, leads("ftp://a.br/b"), 0.1),
        (NEVER, "", HEAD_START),
        (HEAD_START + 0.1, leads(THERE), HEAD_START),
    ],
)
def test_others_are_asked_if_the_hinted_archive_has_no_result(
    took: float, answer: str | None, others_at: float
) -> None:
    network = Network({X: (0.05, leads(HERE))}, {X: (took, answer)}, {})
    assert url_of(network.resolve(X, hinted=2)) == HERE
    assert network.times(X) == {2: 0.0, 1: others_at, 3: others_at}
    assert network.now == others_at + 0.05


def test_a_follow_up_of_the_hinted_archive_waits_for_the_others() -> None:
    network = Network({f"{X}!": (0.2, EDITION)}, {f"{X}!": (0.1, goes_on(Y))})
    assert url_of(network.resolve(f"{X}!", hinted=2)) == HERE
    assert network.times(f"{Y}!") == {}


@pytest.mark.rule("R62-05")
def test_the_hint_is_ignored_if_the_original_is_required() -> None:
    network = Network({X: (0.1, leads(HERE))}, {X: (0.1, leads(THERE))})
    assert silence_of(network.resolve(f"{X}{ORIGINAL}", hinted=2))[0] is AlertKind.SUSPECTS
    assert network.times(X) == {1: 0.0, 2: 0.0}


def test_a_skipped_hinted_archive_causes_no_head_start() -> None:
    network = Network({X: (0.1, leads(HERE))}, {X: (0.0, leads(THERE))})
    breaker = CircuitBreaker(lambda: 0.0)
    for _ in range(MAX_FAILURES):
        breaker.record_result(2, False)
    assert url_of(network.resolve(X, 2, circuit_breaker=breaker)) == HERE
    assert network.times(X) == {1: 0.0}


# --- Archives that claim the item -----------------------------------------------------------------

ORIGINALS = [Claimant(number, State.ORIGINAL) for number in (1, 2)]


@pytest.mark.parametrize("took", [0.1, HEAD_START + 0.5, 9.0])
def test_a_later_claim_is_not_used_although_its_archive_answers_first(took: float) -> None:
    network = Network({X: (took, leads(HERE))}, {X: (0.0, leads(THERE))}, {X: (0.0, leads(THERE))})
    assert url_of(network.resolve(X, claimants=ORIGINALS)) == HERE
    assert network.now == took


@pytest.mark.parametrize(("took", "failed_at"), [(0.1, 0.1), (HEAD_START + 0.5, HEAD_START + 0.5)])
def test_the_next_claimant_is_used_when_the_first_has_no_url(took: float, failed_at: float) -> None:
    network = Network({X: (took, NONSENSE)}, {X: (0.0, leads(HERE))}, {X: (0.0, leads(THERE))})
    assert url_of(network.resolve(X, claimants=ORIGINALS)) == HERE
    assert network.now == failed_at


# --- Archives that are skipped, where the Original is required -----------------------------------


def skipping(*numbers: int) -> CircuitBreaker:
    """Return a circuit breaker that skips some Archives."""
    breaker = CircuitBreaker(lambda: 0.0)
    for number in numbers:
        for _ in range(MAX_FAILURES):
            breaker.record_result(number, False)
    return breaker


def test_a_skipped_archive_can_be_a_suspect() -> None:
    network = Network({X: (0.1, leads(HERE))}, {X: (0.1 + GRACE / 2, leads(THERE))})
    alert = network.resolve(f"{X}{ORIGINAL}", circuit_breaker=skipping(2))
    assert isinstance(alert, Alert)
    assert alert.kind is AlertKind.SUSPECTS
    assert [source.address for source in alert.sources] == ["a1.br", "a2.br"]


def test_a_skipped_archive_is_waited_for_only_for_the_grace_period() -> None:
    network = Network({X: (0.1, leads(HERE))}, {X: (NEVER, NONSENSE)})
    assert url_of(network.resolve(f"{X}{ORIGINAL}", circuit_breaker=skipping(2))) == HERE
    assert network.now == pytest.approx(0.1 + GRACE)
