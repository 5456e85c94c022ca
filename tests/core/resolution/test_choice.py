"""The choice of the next action after a round of answers.

The file choice_cases.txt contains cases for steps 3 to 5 of resolution.md. Both exchanges of [R] 8
are tested too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.stores import rep_of
from support.vectors import FOLDER, load

from flask_ibi_archive.core.identifiers import parse_identifier
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
    AlternativesSearch,
    MissingPart,
    NextRound,
    Redirect,
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


def source_of(number: int) -> ArchiveSource:
    return ArchiveSource(NAMES["E"], f"archive{number}.br")


def read(pairs: str) -> dict[str, tuple[str, ...]]:
    return pairs_as_dict(parse_pairs(insert_identifiers(pairs)))


def resolve(
    target: str, accept: str | None, answers: Answers, silent: int = 0, max_rounds: int = 16
) -> tuple[list[str], Redirect | Alert]:
    """Return the questions of each round, separated by "|", and the outcome."""
    wanted = parse_persistent_target(insert_identifiers(target))
    analysis = Analysis(wanted, parse_accept_language(accept), max_rounds)
    asked = []
    while True:
        names = {name_of(question): question for question in analysis.questions}
        asked.append(" | ".join(names))
        for name, question in names.items():
            for number, pairs in enumerate(answers.get(name, [])):
                redirect = analysis.add_answer(Answer(source_of(number), question, read(pairs)))
                if redirect is not None:
                    return asked, redirect
        for question in analysis.questions if silent else ():
            analysis.add_silence(source_of(9), question, None)
        outcome = analysis.finish_round(silent=silent, asked=3)
        if not isinstance(outcome, NextRound):
            return asked, outcome
        assert outcome.questions == analysis.questions


def describe(outcome: Redirect | Alert) -> str:
    """Return an outcome in the notation of the tables."""
    if isinstance(outcome, Redirect):
        return outcome.url
    sources = [source.address.removesuffix(".br") for source in outcome.sources]
    return " ".join([outcome.kind.value, abbreviate(outcome.ibi and outcome.ibi.text), *sources])


@dataclass(frozen=True)
class Case:
    """A persistent URL, the answers to each question, and the expected questions and outcome.

    :param target: the persistent URL without its host.
    :param asked: the expected questions of each round, separated by "|".
    :param end: the expected outcome.
    :param accept: the Accept-Language header.
    :param silent: the number of Archives that do not answer.
    :param depends_on_language: whether the outcome depends on Accept-Language.
    """

    target: str
    answers: Answers
    asked: list[str]
    end: str
    accept: str | None = None
    silent: int = 0
    depends_on_language: bool = False


X_IS = "ibi {rep X} "
WHERE = "url.translation"
FIRST, SECOND = "http://a.br/1", "http://b.br/2"
ORIGINAL = "?ibiurl.requireditemstatus=Original"


def read_cases() -> dict[str, Case]:
    """Return the cases of steps 3 to 5, by the sentence that each case begins with."""
    text = Path(__file__).with_name("choice_cases.txt").read_text(encoding="utf-8")
    text = text.replace("\n    ...", "").replace("FIRST", FIRST).replace("SECOND", SECOND)
    cases: dict[str, Case] = {}
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
        assert sentence not in cases
        cases[sentence] = Case(
            target,
            answers,
            asked.split(", "),
            result,
            accept.strip("[]") or None,
            silent=int("1 silent" in remarks) + 2 * int("2 silent" in remarks),
            depends_on_language="depends on the language" in remarks,
        )
    return cases


@pytest.mark.rule("R61-06", "R61-07", "R61-08", "R62-09", "R62-10", "R62-11", "R62-12", "R62-17")
def test_each_case_has_the_expected_questions_and_outcome() -> None:
    for sentence, case in read_cases().items():
        asked, outcome = resolve(case.target, case.accept, case.answers, case.silent)
        assert (asked, describe(outcome)) == (case.asked, case.end), sentence
        assert outcome.depends_on_language is case.depends_on_language, sentence
        if isinstance(outcome, Alert):
            assert (outcome.silent, outcome.asked) in {(case.silent, 3), (0, 0)}, sentence
            assert outcome.kind.status == STATUSES[outcome.kind.value], sentence


STATUSES = {
    "malformed": 400,
    "unknown": 404,
    "missing": 404,
    "removed": 410,
    "suspects": 409,
    "silent": 504,
    "loop": 508,
    "too_long": 508,
}


def test_the_alert_about_silence_says_whether_the_item_was_found() -> None:
    for known, text in (
        (X_IS, "was found, but not what was requested of it; 1 of 3 Archives did not answer"),
        ("", "was not found, but 1 of 3 Archives did not answer"),
    ):
        _, alert = resolve("/X+(pt)", None, {"X+(pt)": [known]}, silent=1)
        assert isinstance(alert, Alert)
        assert alert.summary == f"{NAMES['X']} {text}"


@pytest.mark.parametrize("rival", ["Y", "Z"])
def test_two_claims_without_answers_count_only_if_they_are_about_one_item(rival: str) -> None:
    analysis = Analysis(parse_persistent_target(insert_identifiers(f"/X+{ORIGINAL}")))
    (question,) = analysis.questions
    for number, name in enumerate("YZ"):
        pairs = read(f"ibi.translation {{rep {name}}}")
        analysis.add_answer(Answer(source_of(number), question, pairs))
    assert isinstance(analysis.finish_round(), NextRound)
    questions = {abbreviate(question.ibi.text): question for question in analysis.questions}
    for number, name in enumerate(["Y", rival]):
        analysis.add_silence(source_of(number), questions[name], State.ORIGINAL)
    outcome = analysis.finish_round(silent=2, asked=2)
    assert isinstance(outcome, Alert)
    assert outcome.kind is (AlertKind.SUSPECTS if rival == "Y" else AlertKind.SILENT)


def test_a_redirect_contains_what_the_acknowledgment_needs() -> None:
    pairs = (
        "ibi {rep X} ibi.metadata {rep M ibip I} url.metadata http://a.br/ã state.metadata Copy "
        "contenttype.metadata Metadata contenttype Data urlkey K"
    )
    _, found = resolve("/X:", None, {"X:": ["", pairs]})
    assert isinstance(found, Redirect)
    assert (found.url, found.content_type, found.state) == (
        "http://a.br/%C3%A3",
        "Metadata",
        "Copy",
    )
    assert [ibi.text for ibi in found.ibi] == [NAMES["M"], NAMES["I"]]
    assert (found.source, name_of(found.question)) == (source_of(1), "X:")
    acknowledgment = found.create_acknowledgment(("192.0.2.1",), "http://urlib.net:80/x")
    assert acknowledgment is not None
    assert acknowledgment.url_key == KEY


@pytest.mark.parametrize("key", ["", "urlkey 12", "urlkey {}", "urlkey {1234567890 1234567890}"])
def test_an_answer_without_a_key_is_used_but_not_acknowledged(key: str) -> None:
    _, found = resolve("/X", None, {"X": [f"url {FIRST} state Purple contenttype {{}} {key}"]})
    assert isinstance(found, Redirect)
    assert (found.state, found.content_type, found.ibi) == (None, None, ())
    assert found.create_acknowledgment(("192.0.2.1",), "http://urlib.net:80/x") is None


@pytest.mark.parametrize(
    ("timestamps", "expected"),
    [
        (["2010-01-02T03:04:05Z"], "2010-01-02T03:04:05Z"),
        (["2010-01-02T03:04:05Z", "2012-01-02T03:04:05Z", "{}"], "2012-01-02T03:04:05Z"),
        (["yesterday"], None),
        (["{2010-01-02 03:04:05}"], None),
    ],
)
def test_an_alert_has_the_latest_date_of_the_removal(
    timestamps: list[str], expected: str | None
) -> None:
    answers = [f"state Deleted timestamp {timestamp}" for timestamp in timestamps]
    _, found = resolve("/X", None, {"X": answers})
    assert isinstance(found, Alert)
    assert (found.kind, found.timestamp) == (AlertKind.REMOVED, expected)


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
    analysis = Analysis(parse_persistent_target(insert_identifiers("/X!")))
    (first,) = analysis.questions
    assert not analysis.has_follow_up()
    analysis.add_answer(Answer(source_of(0), first, read("ibi.nextedition {rep Y}")))
    assert analysis.has_follow_up()
    assert isinstance(analysis.finish_round(), NextRound)
    assert (
        analysis.add_answer(Answer(source_of(1), first, read(f"url.lastedition {FIRST}"))) is None
    )
    assert not analysis.has_follow_up()
    assert describe(analysis.finish_round()) == "unknown Y"  # type: ignore[arg-type]


@pytest.mark.parametrize("pairs", [X_IS, "ibi.nextedition {rep X}"])
def test_an_answer_that_leads_to_no_new_question_has_no_follow_up(pairs: str) -> None:
    analysis = Analysis(parse_persistent_target(insert_identifiers("/X!:")))
    (question,) = analysis.questions
    analysis.add_answer(Answer(source_of(0), question, read(pairs)))
    assert not analysis.has_follow_up()


@pytest.mark.rule("R62-09")
def test_an_original_is_only_accepted_when_all_archives_have_answered() -> None:
    analysis = Analysis(parse_persistent_target(insert_identifiers(f"/X{ORIGINAL}")))
    assert analysis.waits_for_all
    (question,) = analysis.questions
    pairs = read(f"url {FIRST} state Original")
    assert analysis.add_answer(Answer(source_of(0), question, pairs)) is None
    assert isinstance(analysis.finish_round(), Redirect)
    assert not Analysis(parse_persistent_target(insert_identifiers("/X"))).waits_for_all


@pytest.mark.rule("R62-12")
@pytest.mark.parametrize("most", [1, 2, 16])
def test_a_chain_of_editions_is_followed_up_to_the_maximum_of_rounds(most: int) -> None:
    asked = 0

    def follow(length: int) -> Redirect | Alert:
        nonlocal asked
        analysis = Analysis(parse_persistent_target(f"/{rep_of(1)}!"), (), most)
        for number in range(1, 100):
            (question,) = analysis.questions
            asked = number
            assert question.ibi.text == rep_of(number)
            answer = f"ibi.nextedition {{rep {rep_of(number + 1)}}}"
            if number == length:
                answer = f"url.lastedition {FIRST}"
            found = analysis.add_answer(
                Answer(source_of(0), question, pairs_as_dict(parse_pairs(answer)))
            )
            outcome = found or analysis.finish_round()
            if not isinstance(outcome, NextRound):
                return outcome
        raise AssertionError("the resolution does not end")

    assert describe(follow(most)) == FIRST
    assert describe(follow(most + 1)) == f"too_long {abbreviate(rep_of(most))}"
    assert asked == most


@pytest.mark.rule("R62-10")
def test_an_alert_names_the_missing_part_of_a_known_item() -> None:
    for target, answers, missing_part in [
        ("/X+(pt)", {"X+(pt)": [X_IS]}, "X translation"),
        ("/X+(pt)", {"X+(pt)": [f"{X_IS} ibi.translation(pt) {{rep P}}"]}, "X translation"),
        ("/X+", {"X+": [f"{X_IS} ibi.translation(pt) {{rep P}}"]}, "X translation"),
        ("/X:(marc)", {"X:(marc)": [X_IS]}, "X format"),
        ("/X:(marc)", {"X:(marc)": ["ibi.metadata(marc) {rep M}"]}, "X format"),
        (
            "/X!:",
            {
                "X!:": ["ibi.nextedition {rep Y}", "ibi.lastedition {rep Y}"],
                "Y:": ["ibi {rep Y}"],
                "Y!:": ["ibi.lastedition {rep Y}"],
            },
            "Y metadata",
        ),
        ("/X:", {"X:": [X_IS]}, "X metadata"),
        ("/X:", {"X:": [f"{X_IS} ibi.metadata {{rep M}}"]}, "X metadata"),
        ("/X+(pt):", {"X+(pt):": [X_IS, "ibi.translation(pt).metadata {rep M}"]}, "X metadata"),
        (
            "/X!:+",
            {
                "X!:+": [
                    "ibi.lastedition.metadata {rep M} ibi.lastedition.metadata.translation(en) "
                    "{rep N}"
                ]
            },
            "X metadata",
        ),
        ("/X/a.txt", {"X/a.txt": [X_IS]}, "X file"),
        (
            "/X!:(marc)",
            {"X!:(marc)": ["ibi.lastedition {rep Y}"], "Y:(marc)": ["ibi {rep Y}"]},
            "Y format",
        ),
        ("/X!", {"X!": [X_IS]}, "X edition"),
        (
            "/X+(pt)/a.txt",
            {"X+(pt)/a.txt": ["ibi.translation(pt) {rep P}"], "P/a.txt": ["ibi {rep P}"]},
            "P file",
        ),
        ("/X", {"X": [X_IS]}, "X access"),
        (f"/X{ORIGINAL}", {"X": [f"{X_IS} url {FIRST} state Copy"]}, "X original"),
        ("/X!", {"X!": [f"{X_IS} ibi.nextedition {{rep Y}}"]}, "unknown Y"),
        ("/X", {}, "unknown X"),
    ]:
        _, outcome = resolve(target, "pt", answers)
        assert isinstance(outcome, Alert), target
        assert outcome.kind.status == 404, target
        if outcome.missing_part is None:
            assert describe(outcome) == missing_part, target
        else:
            assert outcome.kind is AlertKind.MISSING, target
            name = abbreviate(outcome.ibi and outcome.ibi.text)
            assert f"{name} {outcome.missing_part.name.lower()}" == missing_part, target
            assert outcome.summary == f"{outcome.ibi} is known, but {outcome.missing_part.value}", (
                target
            )


def test_the_search_for_alternatives_finds_the_other_parts_of_an_item() -> None:
    search = AlternativesSearch(
        Alert(AlertKind.MISSING, parse_identifier(NAMES["X"]), missing_part=MissingPart.FORMAT)
    )
    assert [name_of(question) for question in search.questions] == ["X+", "X:", "X:(oai_dc)", "X*"]
    assert not search.has_follow_up()
    answers = {
        "X+": (
            f"{X_IS} url.translation {FIRST} url.translation(en) {FIRST} "
            "ibi.translation(pt) {rep P}"
        ),
        "X:": f"{X_IS} url.metadata {FIRST}",
        "X:(oai_dc)": f"{X_IS} ibi.lastedition {{rep Y}}",
        "X*": f"{X_IS} url {FIRST}",
    }
    for question in search.questions:
        search.add_answer(Answer(source_of(0), question, read(answers[name_of(question)])))
        search.add_answer(Answer(source_of(1), question, read("state Deleted")))
    assert search.has_follow_up()
    found = [
        format_persistent_target(url).replace(NAMES["X"], "X")
        for url in search.finish_round().alternatives
    ]
    assert found == ["/X:", "/X+(en)", "/X+(pt)", "/X?ibiurl.verblist=GetFileList"]


def test_a_removed_item_is_no_alternative() -> None:
    answers = {"X+(pt)": [f"{X_IS} ibi.translation(pt) {{rep P}}"], "P": ["state Deleted"]}
    _, alert = resolve("/X+(pt)", None, answers)
    assert isinstance(alert, Alert)
    search = AlternativesSearch(alert)
    pairs = "ibi.translation(pt) {rep P ibip I} ibi.translation(en) {rep E}"
    search.add_answer(Answer(source_of(0), search.questions[0], read(pairs)))
    [found] = search.finish_round().alternatives
    assert format_persistent_target(found) == f"/{NAMES['X']}+(en)"


def test_other_languages_of_the_last_round_are_tried_without_a_question() -> None:
    """The alert is never about the tombstone of another item."""
    removed = {"X+": [f"{X_IS} ibi.translation(pt) {{rep P}}"], "P": ["state Deleted"]}
    assert describe(resolve("/X+", "pt", removed, max_rounds=2)[1]) == "missing X"
    metadata = {
        "X+:+": [
            "ibi.translation(pt).metadata {rep X} "
            "ibi.translation(en).metadata.translation(en) {rep P}"
        ],
        "X+": ["ibi.translation(en) {rep P}"],
        "P:+": ["state Deleted"],
    }
    assert describe(resolve("/X+:+", "pt-BR, en", metadata, max_rounds=3)[1]) == "missing X"
    lists = [f"ibi.translation(pt) {{rep {letter}}}" for letter in "YZPQM"]
    postponed = {"X+": [*lists[:4], f"{lists[4]} {WHERE}(en) {FIRST}"]}
    asked, outcome = resolve("/X+", "pt, en", postponed, max_rounds=2)
    assert (asked, describe(outcome)) == (["X+", "Y | Z | P | Q"], FIRST)


def test_a_cycle_and_a_chain_that_is_too_long_have_different_alerts() -> None:
    circle = {"X!": ["ibi.nextedition {rep Y}"], "Y!": ["ibi.nextedition {rep X}"]}
    assert describe(resolve("/X!", None, circle, max_rounds=2)[1]) == "loop Y"
    chain = {"X!": ["ibi.nextedition {rep Y}"], "Y!": ["state Deleted"], "X": [f"url {FIRST}"]}
    assert describe(resolve("/X!", None, chain, max_rounds=2)[1]) == "too_long Y"
    chain["Y!"] = ["ibi.nextedition {rep Z}"]
    outcome = resolve("/X!", None, chain, max_rounds=2)[1]
    assert describe(outcome) == "too_long Y"
    assert isinstance(outcome, Alert)
    assert "too long" in outcome.summary


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
@given(
    verb_lists,
    st.sampled_from(["", "pt-BR, en;q=0.5", "en", "*", "pt;q=0"]),
    st.booleans(),
    st.sampled_from(["", "/a%20b.txt"]),
    st.lists(lists_of_pairs, min_size=1, max_size=8),
    st.integers(1, 16),
)
def test_a_resolution_ends_with_any_answers(
    verbs: tuple[str, ...],
    accept: str,
    original: bool,
    path: str,
    answers: list[dict[str, tuple[str, ...]]],
    most: int,
) -> None:
    ibi = parse_identifier(NAMES["X"])
    wanted = PersistentUrl(ibi, parse_verb_list(" ".join(verbs)), path, original)
    analysis = Analysis(wanted, parse_accept_language(accept), most)
    archives = RandomArchives(answers)
    asked: list[Question] = []
    outcome: Redirect | NextRound | Alert = NextRound(analysis.questions)
    rounds = 0
    while isinstance(outcome, NextRound):
        rounds += 1
        assert 1 <= len(outcome.questions) <= 4
        asked += outcome.questions
        found = None
        for question in outcome.questions:
            assert question.filepath == path
            assert format_request(question.create_request(("192.0.2.1",)))
            for number, pairs in enumerate(archives.ask(question)):
                found = found or analysis.add_answer(Answer(source_of(number), question, pairs))
        outcome = found or analysis.finish_round()
    assert rounds <= most
    assert len(set(asked)) == len(asked)
    if isinstance(outcome, Redirect):
        assert outcome.url in (FIRST, SECOND)
        assert not original or outcome.state == "Original"


def test_only_a_limited_number_of_languages_is_tried() -> None:
    languages = [f"{first}-{second}" for first in ("pt", "en", "es") for second in COUNTRIES]
    pairs = {f"ibi.translation({language})": ("rep", NAMES["Y"]) for language in languages}
    wanted = parse_persistent_target(insert_identifiers("/X+"))
    analysis = Analysis(wanted, parse_accept_language("pt,en,es"))
    (question,) = analysis.questions
    assert analysis.add_answer(Answer(source_of(0), question, pairs)) is None
    assert isinstance(analysis.finish_round(), NextRound)
    assert describe(analysis.finish_round()) == "missing X"  # type: ignore[arg-type]


COUNTRIES = [f"{first}{second}" for first in "ABCDEFGHIJKLMNOPRSTUVWYZ" for second in "AEMORSTUZ"]


@pytest.mark.parametrize("number_of_items", [4, 5, 8])
def test_archives_that_name_new_items_in_each_round_do_not_delay_the_others(
    number_of_items: int,
) -> None:
    numbers = count()
    analysis = Analysis(parse_persistent_target(f"/{NAMES['X']}!"))
    outcome: Redirect | NextRound | Alert = NextRound(analysis.questions)
    rounds = 0
    while isinstance(outcome, NextRound):
        rounds += 1
        found = None
        for question in outcome.questions:
            lists = [
                f"ibi.nextedition {{rep {rep_of(1000 + next(numbers))}}}"
                for _ in range(number_of_items)
            ]
            if question.ibi.text == NAMES["X"]:
                lists.append(f"ibi.nextedition {{rep {NAMES['Y']}}}")
            if question.ibi.text == NAMES["Y"]:
                lists = [f"url.lastedition {FIRST}"]
            for number, pairs in enumerate(lists):
                found = found or analysis.add_answer(
                    Answer(source_of(number), question, read(pairs))
                )
        outcome = found or analysis.finish_round(asked=9)
    assert isinstance(outcome, Redirect)
    assert rounds <= 4
