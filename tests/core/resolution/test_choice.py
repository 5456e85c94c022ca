"""The choice of the next action after a round of answers.

The file choice_cases.txt contains cases for steps 3 to 5 of resolution.md. Both exchanges of [R] 8
are tested too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.stores import rep_of
from support.vectors import FOLDER, load

from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.languages import parse_accept_language
from flask_ibi_archive.core.protocol.messages import format_request
from flask_ibi_archive.core.protocol.pairs import pairs_as_dict, parse_pairs
from flask_ibi_archive.core.protocol.relations import SHAPES, format_verb_list, parse_verb_list
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.resolution.answer import Answer, ArchiveSource, Question
from flask_ibi_archive.core.resolution.choice import Analysis
from flask_ibi_archive.core.resolution.outcome import (
    Alert,
    AlertKind,
    MissingPart,
    NextRound,
    Outcome,
    Redirect,
    add_alternatives,
    ask_for_alternatives,
)
from flask_ibi_archive.core.resolution.persistent_url import (
    PersistentUrl,
    format_persistent_target,
    parse_persistent_target,
    parse_persistent_url,
)

#: In the tables below, a single capital letter is an identifier, except K, which is a URL key.
NAMES = {letter: rep_of(number) for number, letter in enumerate("EFGMNPQXYZ")}
NAMES["I"] = "8JMKD3MGP8W/35MMLL8"
KEY = "1234567890-0123456789"
SIGNS = {"!": "GetLastEdition", "+": "GetTranslation", ":": "GetMetadata", "*": "GetFileList"}
FIRST, SECOND = "http://a.br/1", "http://b.br/2"

Answers = Mapping[str, Sequence[str]]


def insert_identifiers(text: str) -> str:
    """Return a text with identifiers in place of the letters of the tables."""
    return re.sub(r"(?<![\w.])[A-Z](?!\w)", lambda found: {**NAMES, "K": KEY}[found[0]], text)


def abbreviate(ibi: str | None) -> str:
    """Return the letter of an identifier in the tables."""
    return next((letter for letter, text in NAMES.items() if text == ibi), str(ibi))


def name_of(question: Question) -> str:
    """Return a question in the notation of the tables: ``X!:(oai_dc)/a.txt``."""
    verbs = format_verb_list(question.verbs)
    for sign, verb in SIGNS.items():
        verbs = verbs.replace(verb, sign)
    return f"{abbreviate(question.ibi.text)}{verbs.replace(' ', '')}{question.filepath}"


def analyse(target: str, accept: str | None = None, max_rounds: int = 16) -> Analysis:
    wanted = parse_persistent_target(insert_identifiers(target))
    return Analysis(wanted, parse_accept_language(accept), max_rounds)


def source_of(number: int) -> ArchiveSource:
    return ArchiveSource(NAMES["E"], f"archive{number}.br")


def answer(number: int, question: Question, pairs: str) -> Answer:
    """Return the answer of an Archive."""
    words = pairs_as_dict(parse_pairs(insert_identifiers(pairs)))
    return Answer(source_of(number), question, words)


def resolve(
    target: str, accept: str | None, answers: Answers, silent: int = 0, max_rounds: int = 16
) -> tuple[list[str], Redirect | Alert]:
    """Return the questions of each round, separated by "|", and the outcome."""
    analysis = analyse(target, accept, max_rounds)
    asked = []
    while True:
        names = {name_of(question): question for question in analysis.questions}
        asked.append(" | ".join(names))
        for name, question in names.items():
            for number, pairs in enumerate(answers.get(name, [])):
                state = pairs.partition("silent, claims ")[2]
                if state:
                    analysis.add_silence(source_of(number), question, State(state))
                elif redirect := analysis.add_answer(answer(number, question, pairs)):
                    return asked, redirect
        for question in analysis.questions if silent else ():
            analysis.add_silence(source_of(9), question, None)
        outcome = analysis.finish_round(silent=silent, asked=3)
        if not isinstance(outcome, NextRound):
            return asked, outcome
        assert outcome.questions == analysis.questions


def describe(outcome: Outcome) -> str:
    """Return an outcome in the notation of the tables."""
    if isinstance(outcome, Redirect):
        return outcome.url
    assert isinstance(outcome, Alert)
    sources = [source.address.removesuffix(".br") for source in outcome.sources]
    part = [] if outcome.missing_part is None else [outcome.missing_part.name.lower()]
    date = [] if outcome.timestamp is None else [outcome.timestamp]
    name = abbreviate(outcome.ibi and outcome.ibi.text)
    return " ".join([outcome.kind.value, name, *part, *sources, *date])


@dataclass(frozen=True)
class Case:
    """A persistent URL, the answers to each question, and the expected questions and outcome.

    :param target: the persistent URL without its host.
    :param accept: the Accept-Language header.
    :param asked: the expected questions of each round, separated by "|".
    :param end: the expected outcome.
    :param remarks: whether Archives do not answer, whether the outcome depends on Accept-Language,
        and the maximum number of rounds.
    """

    target: str
    accept: str | None
    answers: Answers
    asked: list[str]
    end: str
    remarks: Sequence[str]

    def read_number(self, text: str, default: int) -> int:
        """Return the number in a remark, as in "1 silent"."""
        found = [remark for remark in self.remarks if remark.endswith(text)]
        return int(found[0].partition(" ")[0]) if found else default


def read_cases() -> Iterator[tuple[str, Case]]:
    """Yield the cases of steps 3 to 5, each with the sentence that it begins with."""
    text = Path(__file__).with_name("choice_cases.txt").read_text(encoding="utf-8")
    text = text.replace("\n    ...", "").replace("FIRST", FIRST).replace("SECOND", SECOND)
    for block in text.split("\n\n"):
        sentence, *lines = [line.strip() for line in block.splitlines()]
        if sentence.startswith("#"):
            continue
        target, _, accept = lines[0].partition("  ")
        answers: dict[str, list[str]] = {}
        for line in lines[1:-1]:
            question, pairs = line.split(" ->")
            answers.setdefault(question, []).append(pairs)
        asked, _, end = lines[-1].removeprefix("asked ").partition(" => ")
        result, *remarks = end.split("; ")
        header = accept.strip("[]") or None
        yield sentence, Case(target, header, answers, asked.split(", "), result, remarks)


@pytest.mark.rule("R61-06", "R61-07", "R61-08", "R62-09", "R62-10", "R62-11", "R62-12", "R62-17")
def test_each_case_has_the_expected_questions_and_outcome() -> None:
    for sentence, case in read_cases():
        silent, rounds = case.read_number("silent", 0), case.read_number("rounds at most", 16)
        asked, outcome = resolve(case.target, case.accept, case.answers, silent, rounds)
        assert (asked, describe(outcome)) == (case.asked, case.end), sentence
        depends_on_language = "depends on the language" in case.remarks
        assert outcome.depends_on_language is depends_on_language, sentence
        if isinstance(outcome, Alert):
            assert (outcome.silent, outcome.asked) in {(silent, 3), (0, 0)}, sentence
            assert outcome.kind.status == STATUSES[outcome.kind.value], sentence


STATUSES = {
    "unknown": 404,
    "missing": 404,
    "removed": 410,
    "suspects": 409,
    "silent": 504,
    "loop": 508,
    "too_long": 508,
}


@pytest.mark.rule("R8-03")
@pytest.mark.parametrize("number", [0, 1], ids=["8.1", "8.2"])
def test_the_exchanges_of_sections_8_1_and_8_2(number: int) -> None:
    example: Any = load("resolution/examples.json")[number]
    wanted = parse_persistent_url(example["persistent_url"])
    clients = tuple(example["client_ips"])
    analysis = Analysis(wanted, parse_accept_language(example["accept_language"]))
    source = ArchiveSource("sid.inpe.br/mtc-m18@80/2008/03.17.15.17", "mtc-m16c.sid.inpe.br")
    found: Redirect | None = None
    for round_, url in enumerate(example["url_requests"], 1):
        assert found is None
        (question,) = analysis.questions
        assert url.endswith(f"?{format_request(question.create_request(clients))}")
        text = (FOLDER / example["items"] / f"answer{round_}.txt").read_text(encoding="ascii")
        pairs = pairs_as_dict(parse_pairs(text))
        found = analysis.add_answer(Answer(source, question, pairs))
        if found is None:
            assert analysis.has_follow_up()
            assert isinstance(analysis.finish_round(), NextRound)
    assert found is not None
    assert found.url == example["redirect"]
    assert not found.depends_on_language
    persistent_url = example["persistent_url"].replace("urlib.net/", "urlib.net:80/")
    acknowledgment = found.create_acknowledgment(clients, persistent_url)
    assert acknowledgment is not None
    assert example["acknowledgment"].endswith(f"?{format_request(acknowledgment)}")


def test_an_answer_of_another_round_is_ignored() -> None:
    analysis = analyse("/X!")
    (first,) = analysis.questions
    assert not analysis.has_follow_up()
    analysis.add_answer(answer(0, first, "ibi.nextedition {rep Y}"))
    assert analysis.has_follow_up()
    assert isinstance(analysis.finish_round(), NextRound)
    assert analysis.add_answer(answer(1, first, f"url.lastedition {FIRST}")) is None
    assert not analysis.has_follow_up()
    assert describe(analysis.finish_round()) == "unknown Y"


@pytest.mark.parametrize(
    ("claimants", "end"),
    [
        ("actor1", "http://actor1.br/"),
        ("actor1 archive1", "http://archive1.br/"),
        ("actor1 actor2", "suspects X actor1 actor2"),
        ("actor1 archive1 archive2", "suspects X archive1 archive2"),
    ],
)
def test_the_claims_of_archives_outweigh_those_of_actors(claimants: str, end: str) -> None:
    analysis = analyse("/X?ibiurl.requireditemstatus=Original")
    for name in claimants.split():
        source = ArchiveSource(NAMES["E"], f"{name}.br", is_actor=name.startswith("actor"))
        pairs = {"url": (f"http://{name}.br/",), "state": ("Original",)}
        analysis.add_answer(Answer(source, analysis.questions[0], pairs))
    assert describe(analysis.finish_round()) == end


def test_alternatives_are_the_other_parts_of_an_item() -> None:
    alert = Alert(AlertKind.MISSING, parse_identifier(NAMES["X"]), missing_part=MissingPart.FORMAT)
    questions = ask_for_alternatives(alert)
    assert [name_of(question) for question in questions] == ["X+", "X:", "X:(oai_dc)", "X*"]
    found = {
        "X+": f"url.translation {FIRST} url.translation(en) {FIRST} ibi.translation(pt) {{rep P}}",
        "X:": f"url.metadata {FIRST}",
        "X:(oai_dc)": "ibi.lastedition {rep Y}",
        "X*": f"url {FIRST}",
    }
    answers = [answer(1, question, "state Deleted") for question in questions] + [
        answer(0, question, f"ibi {{rep X}} {found[name_of(question)]}") for question in questions
    ]
    alternatives = [
        format_persistent_target(url).replace(NAMES["X"], "X")
        for url in add_alternatives(alert, answers).alternatives
    ]
    assert alternatives == ["/X:", "/X+(en)", "/X+(pt)", "/X?ibiurl.verblist=GetFileList"]


# --- random answers ----------------------------------------------------------------------------

IBIS = [NAMES[letter] for letter in "XYZPM"]
STEPS = [".lastedition", ".translation", ".metadata", ".metadata(oai_dc)"]
STEPS += [f".translation({language})" for language in ("en", "pt", "pt-BR")]
URLS = [
    FIRST,
    SECOND,
    "javascript:1",
    "http://127.0.0.1/",
    "",
    "http://",
    "//a.br",
    "http://a.br\0",
]
STRANGE = [
    ".nextedition",
    ".archiveservice",
    ".",
    ".translation(xx)",
    ".metadata()",
    "..",
    "\ud800",
    ".é",
]

words = st.one_of(
    st.sampled_from(URLS).map(lambda url: (url,)),
    st.sampled_from(IBIS).map(lambda ibi: ("rep", ibi)),
    st.sampled_from(IBIS).map(lambda ibi: ("rep", ibi, "ibip", NAMES["I"])),
    st.sampled_from(["Original", "Copy", "Deleted", "Data", KEY]).map(lambda word: (word,)),
    st.lists(st.text(max_size=3), max_size=4).map(tuple),
)
relations = st.one_of(
    st.lists(st.sampled_from(STEPS), max_size=4).map("".join), st.sampled_from(STRANGE)
)
prefixes = st.sampled_from(
    ["url", "ibi", "ibi", "state", "contenttype", "urlkey", "timestamp", "", "alert"]
)
names = st.tuples(prefixes, relations).map("".join)
lists_of_pairs = st.dictionaries(names, words, max_size=12)
verb_lists = st.sampled_from(sorted(SHAPES)).flatmap(
    lambda shape: st.tuples(
        *[
            st.sampled_from(
                {
                    "u": ["GetLastEdition"],
                    "t": ["GetTranslation", "GetTranslation(pt-BR)"],
                    "m": ["GetMetadata", "GetMetadata(oai_dc)"],
                }[letter]
            )
            for letter in shape
        ]
    )
)


def follow(
    analysis: Analysis, archives: Callable[[Question], Iterable[Mapping[str, tuple[str, ...]]]]
) -> tuple[list[tuple[Question, ...]], Redirect | Alert]:
    """Return the questions of each round and the outcome.

    :param archives: returns the answers of all Archives to a question.
    """
    rounds = []
    while True:
        rounds.append(analysis.questions)
        for question in analysis.questions:
            for number, pairs in enumerate(archives(question)):
                if redirect := analysis.add_answer(Answer(source_of(number), question, pairs)):
                    return rounds, redirect
        outcome = analysis.finish_round()
        if not isinstance(outcome, NextRound):
            return rounds, outcome


@dataclass
class RandomArchives:
    """Two Archives whose answers to each question are chosen from a list of random answers."""

    answers: list[dict[str, tuple[str, ...]]]
    numbers: dict[Question, int] = field(default_factory=dict)

    def ask(self, question: Question) -> list[dict[str, tuple[str, ...]]]:
        """Return the answers of both Archives; a repeated question has the same answers."""
        start = 2 * self.numbers.setdefault(question, len(self.numbers))
        return [self.answers[(start + turn) % len(self.answers)] for turn in range(2)]


@pytest.mark.rule("R62-11")
@settings(max_examples=20)
@given(
    verb_lists,
    st.sampled_from(["", "pt-BR, en;q=0.5", "en", "*", "pt;q=0"]),
    st.booleans(),
    st.sampled_from(["", "/a%20b.txt"]),
    st.lists(lists_of_pairs, min_size=1, max_size=8),
    st.integers(1, 16),
)
def test_a_resolution_ends_with_any_answers_and_ends_in_the_same_way_when_it_is_replayed(
    verbs: tuple[str, ...],
    accept: str,
    original: bool,
    path: str,
    answers: list[dict[str, tuple[str, ...]]],
    most: int,
) -> None:
    ibi = parse_identifier(NAMES["X"])
    wanted = PersistentUrl(ibi, parse_verb_list(" ".join(verbs)), path, original)
    ranges, archives = parse_accept_language(accept), RandomArchives(answers)
    rounds, outcome = follow(Analysis(wanted, ranges, most), archives.ask)
    assert len(rounds) <= most
    assert all(1 <= len(questions) <= 4 for questions in rounds)
    asked = [question for questions in rounds for question in questions]
    assert len(set(asked)) == len(asked)
    for question in asked:
        assert question.filepath == path
        assert format_request(question.create_request(("192.0.2.1",)))
    if isinstance(outcome, Redirect):
        assert outcome.url in (FIRST, SECOND)
        assert not original or outcome.state == "Original"
    assert follow(Analysis(wanted, ranges, most), archives.ask) == (rounds, outcome)


def test_only_a_limited_number_of_languages_is_tried() -> None:
    languages = [f"{first}-{second}" for first in ("pt", "en", "es") for second in COUNTRIES]
    pairs = " ".join([f"ibi.translation({language}) {{rep Y}}" for language in languages])
    _, outcome = resolve("/X+", "pt,en,es", {"X+": [pairs]})
    assert describe(outcome) == "missing X translation"


COUNTRIES = [f"{first}{second}" for first in "ABCDEFGHIJKLMNOPRSTUVWYZ" for second in "AEMORSTUZ"]


@pytest.mark.parametrize("number_of_items", [4, 5, 8])
def test_archives_that_name_new_items_in_each_round_do_not_delay_the_others(
    number_of_items: int,
) -> None:
    numbers = count(1000)

    def ask(question: Question) -> list[dict[str, tuple[str, ...]]]:
        if question.ibi.text == NAMES["Y"]:
            return [{"url.lastedition": (FIRST,)}]
        items = [rep_of(next(numbers)) for _ in range(number_of_items)]
        items += [NAMES["Y"]] if question.ibi.text == NAMES["X"] else []
        return [{"ibi.nextedition": ("rep", item)} for item in items]

    rounds, outcome = follow(analyse("/X!"), ask)
    assert describe(outcome) == FIRST
    assert len(rounds) <= 4
