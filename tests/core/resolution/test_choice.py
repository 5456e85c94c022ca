"""The choice of the next action after a round of answers.

The tables contain cases for steps 3 to 5 of resolution.md. Both exchanges of [R] 8 are tested too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
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
SIGNS = {
    "!": "GetLastEdition",
    "+": "GetTranslation",
    ":": "GetMetadata",
    "*": "GetFileList",
}

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
FIRST, SECOND = "http://a.br/1", "http://b.br/2"
ORIGINAL = "?ibiurl.requireditemstatus=Original"
FILES = "?ibiurl.verblist=GetFileList"

#: Step 3: the answer that is used.
STEP_3 = {
    "the first answer with a URL wins": Case(
        "/X",
        {"X": ["", f"{X_IS} url {FIRST}", f"{X_IS} url {SECOND}"]},
        ["X"],
        FIRST,
    ),
    "a Copy is as good as an Original": Case(
        "/X",
        {"X": [f"{X_IS} url {FIRST} state Copy", f"url {SECOND} state Original"]},
        ["X"],
        FIRST,
    ),
    "an answer with only a URL is sufficient": Case("/X", {"X": [f"url {FIRST}"]}, ["X"], FIRST),
    "a URL of another relation is not used": Case(
        "/X", {"X": [f"{X_IS} url.metadata {FIRST}"]}, ["X"], "missing X"
    ),
    "an unusable URL is ignored": Case(
        "/X", {"X": [f"{X_IS} url javascript:alert(1)", f"{X_IS} url {SECOND}"]}, ["X"], SECOND
    ),
    "only the Original is accepted": Case(
        f"/X{ORIGINAL}",
        {"X": [f"{X_IS} url {FIRST} state Copy", f"{X_IS} url {SECOND} state Original"]},
        ["X"],
        SECOND,
    ),
    "two Archives claim the Original": Case(
        f"/X{ORIGINAL}",
        {"X": [f"url {FIRST} state Original", f"{X_IS}", f"url {SECOND} state Original"]},
        ["X"],
        "suspects X archive0 archive2",
    ),
    "a claim without a usable URL does not count": Case(
        f"/X{ORIGINAL}",
        {"X": ["state Original", "state Original url ftp://a.br", f"state Original url {SECOND}"]},
        ["X"],
        SECOND,
    ),
    "no Archive claims the Original": Case(
        f"/X{ORIGINAL}",
        {"X": [f"{X_IS} url {FIRST} state Copy", f"url {SECOND}"]},
        ["X"],
        "missing X",
    ),
    "the state must belong to the same relation as the URL": Case(
        f"/X:{ORIGINAL}",
        {"X:": [f"{X_IS} state Original url.metadata {FIRST} state.metadata Copy"]},
        ["X:"],
        "missing X",
    ),
    "if no Archive claims the Original, a known IBI is asked about": Case(
        f"/X:{ORIGINAL}",
        {
            "X:": [f"{X_IS} ibi.metadata {{rep M}} url.metadata {FIRST} state.metadata Copy"],
            "M": [f"url {FIRST} state Copy", f"url {SECOND} state Original"],
        },
        ["X:", "M"],
        SECOND,
    ),
    "for the metadata of a Copy, a known IBI of the first steps is asked about": Case(
        f"/X!:{ORIGINAL}",
        {
            "X!:": [
                f"ibi.lastedition {{rep Y}} url.lastedition.metadata {FIRST}"
                " state.lastedition.metadata Copy"
            ],
            "Y:": [f"url.metadata {SECOND} state.metadata Original"],
        },
        ["X!:", "Y:"],
        SECOND,
    ),
    "for the metadata of a Copy, the Original of all other steps is requested": Case(
        f"/X!+(pt):{ORIGINAL}",
        {
            "X!+(pt):": [
                f"url.lastedition.translation(pt).metadata {FIRST}"
                " state.lastedition.translation(pt).metadata Copy"
            ],
            "X!+(pt)": ["ibi.lastedition.translation(pt) {rep Y}"],
            "Y:": [f"url.metadata {SECOND} state.metadata Original"],
        },
        ["X!+(pt):", "X!+(pt)", "Y:"],
        SECOND,
    ),
    "an answer with only a next edition does not name an Original": Case(
        f"/X{ORIGINAL}", {"X": ["ibi.nextedition {rep Y}"]}, ["X"], "missing X"
    ),
    "for the metadata of a Copy, the metadata of its Original are requested": Case(
        f"/X!:{ORIGINAL}",
        {
            "X!:": [f"{X_IS} url.lastedition.metadata {FIRST} state.lastedition.metadata Copy"],
            "X!": [f"{X_IS} ibi.lastedition {{rep Y}} url.lastedition {FIRST}"],
            "Y:": [f"url.metadata {SECOND} state.metadata Original"],
        },
        ["X!:", "X!", "Y:"],
        SECOND,
    ),
    "unknown": Case("/X", {"X": ["", ""]}, ["X"], "unknown X"),
    "unknown to the Archives that answered": Case("/X", {"X": [""]}, ["X"], "silent X", silent=2),
    "known, without a URL": Case("/X", {"X": [X_IS]}, ["X"], "missing X"),
    "removed": Case("/X", {"X": ["", f"{X_IS} state Deleted"]}, ["X"], "removed X archive1"),
    "removed in two places, while others are silent": Case(
        "/X!",
        {"X!": [f"{X_IS} state Deleted", "state Deleted"]},
        ["X!"],
        "silent X archive0 archive1",
        silent=1,
    ),
    "removed in one place, not in another": Case(
        "/X", {"X": [f"{X_IS} state Deleted", f"{X_IS} url {SECOND}"]}, ["X"], SECOND
    ),
    "removed in one place, without a URL in another": Case(
        "/X", {"X": [f"{X_IS} state Deleted", X_IS]}, ["X"], "missing X"
    ),
    "a tombstone has no URL": Case(
        "/X", {"X": [f"{X_IS} state Deleted url {FIRST}"]}, ["X"], "removed X archive0"
    ),
}

#: Step 4: follow-up questions.
STEP_4 = {
    "the item of the whole relation is asked about": Case(
        "/X:", {"X:": [f"{X_IS} ibi.metadata {{rep M}}"], "M": [f"url {FIRST}"]}, ["X:", "M"], FIRST
    ),
    "the item of the longest known first steps is asked about the remaining steps": Case(
        "/X!+(pt):",
        {
            "X!+(pt):": [
                f"{X_IS} ibi.lastedition {{rep Y}} ibi.lastedition.translation(pt) {{rep P}}"
            ],
            "P:": [f"url.metadata {FIRST}"],
        },
        ["X!+(pt):", "P:"],
        FIRST,
    ),
    "the item of the empty relation is not asked about again": Case(
        "/X:", {"X:": ["ibi {rep Y}"]}, ["X:"], "missing X"
    ),
    "the next edition is asked about if nothing else is known": Case(
        "/X!:",
        {
            "X!:": [f"{X_IS} ibi.nextedition {{rep Y}}"],
            "Y!:": [f"url.lastedition.metadata {FIRST}"],
        },
        ["X!:", "Y!:"],
        FIRST,
    ),
    "a known first step is better than the next edition": Case(
        "/X!:",
        {
            "X!:": [f"{X_IS} ibi.nextedition {{rep Y}} ibi.lastedition {{rep Z}}"],
            "Z:": [f"url.metadata {FIRST}"],
        },
        ["X!:", "Z:"],
        FIRST,
    ),
    "the next edition is not used if the first step is a translation": Case(
        "/X+(pt)!", {"X+(pt)!": [f"{X_IS} ibi.nextedition {{rep Y}}"]}, ["X+(pt)!"], "missing X"
    ),
    "a metadata format is requested again after the first steps": Case(
        "/X:(oai_dc)+(pt)",
        {
            "X:(oai_dc)+(pt)": [f"{X_IS} ibi.metadata(oai_dc) {{rep M}}"],
            "M:(oai_dc)+(pt)": ["ibi {rep M} ibi.metadata(oai_dc).translation(pt) {rep N}"],
            "N:(oai_dc)": [f"url.metadata(oai_dc) {FIRST}"],
        },
        ["X:(oai_dc)+(pt)", "M:(oai_dc)+(pt)", "N:(oai_dc)"],
        FIRST,
    ),
    "metadata that are their own metadata are not asked about again": Case(
        "/X:(oai_dc)",
        {"X:(oai_dc)": [f"{X_IS} ibi.metadata(oai_dc) {{rep X}}"]},
        ["X:(oai_dc)"],
        "missing X",
    ),
    "metadata that are their own metadata may be named by the other form": Case(
        "/I:(oai_dc)",
        {"I:(oai_dc)": ["ibi {rep X ibip I} ibi.metadata(oai_dc) {rep X}"]},
        ["I:(oai_dc)"],
        "missing I",
    ),
    "follow-up questions have the same path, GetFileList and required status": Case(
        "/X!/a%20b.txt?ibiurl.verblist=GetFileList&ibiurl.requireditemstatus=Original",
        {
            "X!*/a%20b.txt": [f"{X_IS} ibi.lastedition {{rep Y}}"],
            "Y*/a%20b.txt": [f"url {FIRST} state Copy", f"url {SECOND} state Original"],
        },
        ["X!*/a%20b.txt", "Y*/a%20b.txt"],
        SECOND,
    ),
    "the same item in several answers is one question, with its repository name": Case(
        "/X!",
        {
            "X!": [
                "ibi.nextedition {ibip I}",
                "ibi.nextedition {rep Y}",
                "ibi.nextedition {rep Y ibip I}",
            ],
            "Y!": [f"url.lastedition {FIRST}"],
        },
        ["X!", "Y!"],
        FIRST,
    ),
    "the repository name of an earlier answer is used": Case(
        "/X!",
        {"X!": ["ibi.nextedition {ibip I rep Y}", "ibi.nextedition {ibip I}"]},
        ["X!", "Y!"],
        "unknown Y",
    ),
    "the repository name of a later answer is used": Case(
        "/X!",
        {"X!": ["ibi.nextedition {ibip I}", "ibi.nextedition {ibip I rep Y}"]},
        ["X!", "Y!"],
        "unknown Y",
    ),
    "the IBIp is used if no other form is known": Case(
        "/X!", {"X!": ["ibi.nextedition {ibip I}"]}, ["X!", "I!"], "unknown I"
    ),
    "different items are different questions, the most advanced question first": Case(
        "/X!:",
        {"X!:": [f"{X_IS} ibi.nextedition {{rep Y}}", f"{X_IS} ibi.lastedition {{rep Z}}"]},
        ["X!:", "Z: | Y!:"],
        "unknown Z",
    ),
    "a round has at most four questions; other questions are postponed": Case(
        "/X!",
        {
            "X!": [f"{X_IS} ibi.nextedition {{rep {letter}}}" for letter in "YZPQMN"],
            "N!": [f"url.lastedition {FIRST}"],
        },
        ["X!", "Y! | Z! | P! | Q!", "M! | N!"],
        FIRST,
    ),
    "postponed questions come before new ones": Case(
        "/X!",
        {
            "X!": [f"{X_IS} ibi.nextedition {{rep {letter}}}" for letter in "YZPQMN"],
            "Q!": ["ibi.nextedition {rep G}"],
            "G!": [f"url.lastedition {FIRST}"],
        },
        ["X!", "Y! | Z! | P! | Q!", "M! | N! | G!"],
        FIRST,
    ),
    "a cycle is found although other questions were postponed": Case(
        "/X!",
        {
            "X!": [f"{X_IS} ibi.nextedition {{rep {letter}}}" for letter in "YZPQM"],
            **{f"{letter}!": ["ibi.nextedition {rep X}"] for letter in "YZPQ"},
        },
        ["X!", "Y! | Z! | P! | Q!", "M!"],
        "loop M",
    ),
    "a removed edition is passed over although other questions were postponed": Case(
        "/X!",
        {
            "X!": [f"{X_IS} ibi.nextedition {{rep {letter}}}" for letter in "YZPQMN"],
            "Z!": ["state Deleted"],
            "X": [f"url {FIRST}"],
        },
        ["X!", "Y! | Z! | P! | Q!", "M! | N! | X"],
        FIRST,
    ),
    "if a URL is unusable, its IBI is asked about": Case(
        "/X:",
        {
            "X:": [f"{X_IS} url.metadata http://user@a.br/ ibi.metadata {{rep M}}"],
            "M": [f"url {SECOND}"],
        },
        ["X:", "M"],
        SECOND,
    ),
    "an Archive that does not answer the last round is reported": Case(
        "/X!", {"X!": ["ibi.nextedition {rep Y}"]}, ["X!", "Y!"], "silent Y", silent=1
    ),
    "a removed last edition is passed over": Case(
        "/X!",
        {"X!": ["ibi.nextedition {rep Y}"], "Y!": ["", "state Deleted"], "X": [f"url {FIRST}"]},
        ["X!", "Y!", "X"],
        FIRST,
    ),
    "the last edition is the one before the removed edition": Case(
        "/X!:",
        {
            "X!:": ["ibi.nextedition {rep Y}"],
            "Y!:": ["ibi.nextedition {rep Z}"],
            "Z!:": ["state Deleted"],
            "Y:": [f"url.metadata {FIRST}"],
        },
        ["X!:", "Y!:", "Z!:", "Y:"],
        FIRST,
    ),
    "an edition is not passed over if an Archive still has it": Case(
        "/X!",
        {"X!": ["ibi.nextedition {rep Y}"], "Y!": ["state Deleted", "ibi {rep Y}"]},
        ["X!", "Y!"],
        "missing Y",
    ),
    "an edition is not passed over if an Archive that did not answer may have it": Case(
        "/X!",
        {"X!": ["ibi.nextedition {rep Y}"], "Y!": ["state Deleted"], "X": [f"url {FIRST}"]},
        ["X!", "Y!"],
        "silent Y archive0",
        silent=1,
    ),
    "a removed last edition of a translation is passed over": Case(
        "/X+(pt)!:",
        {
            "X+(pt)!:": ["ibi.translation(pt) {rep P} ibi.translation(pt).lastedition {rep Q}"],
            "Q:": ["state Deleted"],
            "P:": [f"url.metadata {FIRST}"],
        },
        ["X+(pt)!:", "Q:", "P:"],
        FIRST,
    ),
    "the item itself is asked about if its IBI is not known": Case(
        "/X+(pt)!:",
        {
            "X+(pt)!:": ["ibi.translation(pt).lastedition {rep Q}"],
            "Q:": ["state Deleted"],
            "X+(pt):": [f"url.translation(pt).metadata {FIRST}"],
        },
        ["X+(pt)!:", "Q:", "X+(pt):"],
        FIRST,
    ),
    "removed metadata are not reached": Case(
        "/X:",
        {"X:": [f"{X_IS} ibi.metadata {{rep M}}"], "M": ["state Deleted"]},
        ["X:", "M"],
        "missing X",
    ),
    "the alert about removed metadata names the item that they describe": Case(
        "/X!:(oai_dc)",
        {
            "X!:(oai_dc)": ["ibi.lastedition {rep Y} ibi.lastedition.metadata(oai_dc) {rep M}"],
            "M:(oai_dc)": ["state Deleted"],
        },
        ["X!:(oai_dc)", "M:(oai_dc)"],
        "missing Y",
    ),
    "a cycle": Case(
        "/X!",
        {"X!": ["ibi.nextedition {rep Y}"], "Y!": ["ibi.nextedition {rep X}"]},
        ["X!", "Y!"],
        "loop Y",
    ),
    "a cycle of one item": Case("/X!", {"X!": ["ibi.nextedition {rep X}"]}, ["X!"], "loop X"),
    "one of two routes is a cycle": Case(
        "/X!",
        {
            "X!": ["ibi.nextedition {rep Y}", "ibi.nextedition {rep Z}"],
            "Y!": ["ibi.nextedition {rep Q}"],
            "Z!": ["ibi.nextedition {rep Q}"],
            "Q!": ["ibi.nextedition {rep Y}"],
        },
        ["X!", "Y! | Z!", "Q!"],
        "loop Q",
    ),
    "no question is asked twice": Case(
        "/X!",
        {
            "X!": ["ibi.nextedition {rep Y}"],
            "Y!": ["ibi.nextedition {rep X}", "ibi.nextedition {rep Z}"],
            "Z!": [f"url.lastedition {FIRST}"],
        },
        ["X!", "Y!", "Z!"],
        FIRST,
    ),
}

WHERE, OF_LAST = "url.translation", "url.lastedition.translation"
ENGLISH = f"{X_IS} {WHERE}(en) {FIRST} ibi.translation(en) {{rep X}}"
BOTH = f"{ENGLISH} {WHERE}(pt) {SECOND} ibi.translation(pt) {{rep P}}"

#: Step 5: languages.
STEP_5 = {
    "the translation that the reader prefers": Case(
        "/X+", {"X+": [BOTH]}, ["X+"], SECOND, "pt, en;q=0.5", depends_on_language=True
    ),
    "pt-BR falls back to pt": Case(
        "/X+", {"X+": [BOTH]}, ["X+"], SECOND, "pt-BR, en", depends_on_language=True
    ),
    "pt accepts pt-BR": Case(
        "/X+",
        {"X+": [f"{X_IS} {WHERE}(en) {FIRST} {WHERE}(pt-BR) {SECOND}"]},
        ["X+"],
        SECOND,
        "pt",
        depends_on_language=True,
    ),
    "if no language suits, the translation without a language is used": Case(
        "/X+",
        {"X+": [f"{X_IS} {WHERE} {FIRST} {WHERE}(en) {SECOND}"]},
        ["X+"],
        FIRST,
        "ja",
        depends_on_language=True,
    ),
    "if no language suits, the item itself is used": Case(
        "/X+", {"X+": [BOTH]}, ["X+"], FIRST, "ja", depends_on_language=True
    ),
    "without preferences, the item itself is used": Case(
        "/X+", {"X+": [BOTH]}, ["X+"], FIRST, depends_on_language=True
    ),
    "the question about the item itself has no translation": Case(
        "/X+",
        {"X+": [f"{X_IS} {WHERE}(en) {FIRST}"], "X": [f"url {SECOND}"]},
        ["X+", "X"],
        SECOND,
        "ja",
        depends_on_language=True,
    ),
    "the question about the item itself has the same identifier": Case(
        "/X+",
        {"X+": [f"ibi {{rep Y}} {WHERE}(en) {FIRST}"], "X": [f"url {SECOND}"]},
        ["X+", "X"],
        SECOND,
        "ja",
        depends_on_language=True,
    ),
    "the question about a last edition that has only a URL has no translation": Case(
        "/X!+",
        {"X!+": [f"url.lastedition {SECOND}"], "X!": [f"url.lastedition {FIRST}"]},
        ["X!+", "X!"],
        FIRST,
        "pt",
    ),
    "the question about a last edition itself has no translation": Case(
        "/X!+",
        {
            "X!+": [f"{X_IS} ibi.lastedition {{rep Y}} ibi.lastedition.translation(en) {{rep E}}"],
            "Y": [f"url {FIRST}"],
        },
        ["X!+", "Y"],
        FIRST,
        "ja",
        depends_on_language=True,
    ),
    "a translation of which only the IBI is known is asked about": Case(
        "/X+",
        {
            "X+": [f"{X_IS} {WHERE}(en) {FIRST} ibi.translation(pt) {{rep P}}"],
            "P": [f"url {SECOND}"],
        },
        ["X+", "P"],
        SECOND,
        "pt",
        depends_on_language=True,
    ),
    "the language of an item is chosen, then its metadata": Case(
        "/X+:",
        {"X+:": [f"{X_IS} {WHERE}(en).metadata {FIRST} {WHERE}(pt).metadata {SECOND}"]},
        ["X+:"],
        SECOND,
        "pt",
        depends_on_language=True,
    ),
    "the languages of two translations are chosen one after the other": Case(
        "/X+:+",
        {
            "X+:+": [
                f"{X_IS} {WHERE}(pt).metadata.translation(en) {FIRST}"
                f" {WHERE}(pt).metadata.translation(es) {SECOND}"
                f" {WHERE}(en).metadata.translation(pt) http://c.br/3"
            ]
        },
        ["X+:+"],
        SECOND,
        "pt, es;q=0.9, en;q=0.8",
        depends_on_language=True,
    ),
    "metadata that are not an item are their own translation": Case(
        "/X:+",
        {"X:+": [f"{X_IS} url.metadata.translation {FIRST}"]},
        ["X:+"],
        FIRST,
        "pt",
        depends_on_language=True,
    ),
    "all languages are requested if the answer may lack the best language": Case(
        "/X+:",
        {
            "X+:": [f"{X_IS} {WHERE}(en).metadata {FIRST}"],
            "X+": [f"{X_IS} {WHERE}(en) {FIRST} ibi.translation(pt) {{rep P}}"],
            "P:": [f"url.metadata {SECOND}"],
        },
        ["X+:", "X+", "P:"],
        SECOND,
        "pt",
        depends_on_language=True,
    ),
    "the URL of only the first steps is not the result": Case(
        "/X+:",
        {
            "X+:": [f"{X_IS} {WHERE}(en).metadata {FIRST}"],
            "X+": [f"{X_IS} {WHERE}(en) {FIRST} ibi.translation(en) {{rep E}}"],
            "E:": [f"url.metadata {SECOND}"],
        },
        ["X+:", "X+", "E:"],
        SECOND,
        "en-GB",
        depends_on_language=True,
    ),
    "a translation without an IBI is requested by its language": Case(
        "/X+:",
        {
            "X+:": [f"{WHERE}(en).metadata {FIRST}"],
            "X+": [f"{WHERE}(en) {FIRST} {WHERE}(pt-BR) {SECOND}"],
            "X+(pt-BR):": [f"{WHERE}(pt-BR).metadata {SECOND}"],
        },
        ["X+:", "X+", "X+(pt-BR):"],
        SECOND,
        "pt",
        depends_on_language=True,
    ),
    "a translation of a last edition without an IBI is requested by its language": Case(
        "/X!+:",
        {
            "X!+:": [f"{OF_LAST}(en).metadata {FIRST}"],
            "X!+": [f"{OF_LAST}(en) {FIRST} {OF_LAST}(pt) {SECOND}"],
            "X!+(pt):": [f"{OF_LAST}(pt).metadata {SECOND}"],
        },
        ["X!+:", "X!+", "X!+(pt):"],
        SECOND,
        "pt",
        depends_on_language=True,
    ),
    "a translation that is the last edition itself is left out of the next question": Case(
        "/X!+:",
        {
            "X!+:": [f"{OF_LAST}.metadata {FIRST}"],
            "X!+": [f"{OF_LAST} {FIRST}"],
            "X!:": [f"url.lastedition.metadata {SECOND}"],
        },
        ["X!+:", "X!+", "X!:"],
        SECOND,
        "pt",
        depends_on_language=True,
    ),
    "a translation that is the item itself is left out of the next question": Case(
        "/X+:",
        {
            "X+:": [f"{WHERE}.metadata {FIRST}"],
            "X+": [f"{WHERE} {FIRST}"],
            "X:": [f"url.metadata {SECOND}"],
        },
        ["X+:", "X+", "X:"],
        SECOND,
        "pt",
        depends_on_language=True,
    ),
    "the best language needs no further question": Case(
        "/X+:",
        {"X+:": [f"{X_IS} {WHERE}(en).metadata {FIRST}"]},
        ["X+:"],
        FIRST,
        "en, pt;q=0.9",
        depends_on_language=True,
    ),
    "an answer with all languages needs no further question": Case(
        "/X+:",
        {
            "X+:": [
                f"{X_IS} {WHERE}(en).metadata {FIRST} ibi.translation(pt) {{rep P}}",
            ],
            "P:": [f"url.metadata {SECOND}"],
        },
        ["X+:", "P:"],
        SECOND,
        "pt-PT",
        depends_on_language=True,
    ),
    "an answer with all languages of a last edition needs no further question": Case(
        "/X!+:",
        {
            "X!+:": [
                f"{OF_LAST}(en).metadata {FIRST} ibi.lastedition.translation(pt) {{rep P}}",
            ],
            "P:": [f"url.metadata {SECOND}"],
        },
        ["X!+:", "P:"],
        SECOND,
        "pt-PT",
        depends_on_language=True,
    ),
    "all languages are requested if the best known language is a dead end": Case(
        "/X+:",
        {
            "X+:": ["ibi.translation(pt).metadata {rep M}"],
            "X+": ["ibi.translation(en) {rep E} ibi.translation(pt) {rep P}"],
            "E:": [f"url.metadata {FIRST}"],
        },
        ["X+:", "M", "X+", "P:", "E:"],
        FIRST,
        "pt, en",
        depends_on_language=True,
    ),
    "a language that the persistent URL names is not replaced": Case(
        "/X+:+(pt)",
        {
            "X+:+(pt)": ["ibi.translation(en).metadata.translation(pt) {rep P}"],
            "X:+(pt)": [f"url.metadata.translation(pt) {FIRST}"],
        },
        ["X+:+(pt)", "P", "X+", "X:+(pt)"],
        FIRST,
        "en",
        depends_on_language=True,
    ),
    "a reader without preferences gets the item itself": Case(
        "/X+:",
        {"X+:": [f"{X_IS} {WHERE}(en).metadata {FIRST}"], "X:": [f"url.metadata {SECOND}"]},
        ["X+:", "X:"],
        SECOND,
        "*",
        depends_on_language=True,
    ),
    "if the translation into a language was removed, the next language is used": Case(
        "/X+",
        {
            "X+": [f"{BOTH} ibi.translation(es) {{rep Y}}"],
            "Y": ["state Deleted"],
        },
        ["X+", "Y"],
        SECOND,
        "es, pt;q=0.5",
        depends_on_language=True,
    ),
    "the next language is used from the first answer that has it": Case(
        "/X+",
        {
            "X+": [
                f"{WHERE}(en) {FIRST} ibi.translation(pt) {{rep P}}",
                f"{WHERE}(en) {SECOND} ibi.translation(pt) {{rep P}}",
                "ibi.translation(pt) {rep P}",
            ]
        },
        ["X+", "P"],
        FIRST,
        "pt, en",
        depends_on_language=True,
    ),
    "the next language is used although questions were postponed": Case(
        "/X+",
        {
            "X+": [
                f"{WHERE}(en) {FIRST} ibi.translation(pt) {{rep Y}}",
                *(f"ibi.translation(pt) {{rep {letter}}}" for letter in "ZPQM"),
            ]
        },
        ["X+", "Y | Z | P | Q", "M", "X"],
        FIRST,
        "pt, en",
        depends_on_language=True,
    ),
    "if no translation has metadata, the item itself is used": Case(
        "/X+:",
        {
            "X+:": [f"{X_IS} ibi.translation(en) {{rep X}} ibi.translation(pt) {{rep P}}"],
            "P:": ["ibi {rep P}"],
            "X:": [f"url.metadata {FIRST}"],
        },
        ["X+:", "P:", "X:"],
        FIRST,
        "pt",
        depends_on_language=True,
    ),
    "a translation without a usable URL is not replaced by another language": Case(
        "/X+",
        {"X+": [f"{X_IS} {WHERE}(en) {FIRST} ibi.translation(pt) {{rep P}}"], "P": ["ibi {rep P}"]},
        ["X+", "P"],
        "missing P",
        "pt, en",
        depends_on_language=True,
    ),
    "if no Archive answers about all languages, the known language is used": Case(
        "/X+:",
        {"X+:": [f"{X_IS} {WHERE}(en).metadata {FIRST}"]},
        ["X+:", "X+"],
        FIRST,
        "pt, en",
        silent=1,
        depends_on_language=True,
    ),
    "metadata without a usable URL are not replaced, by whatever route they were found": Case(
        "/X+:",
        {
            "X+:": [
                f"{X_IS} ibi.translation(pt).metadata {{rep M}}",
                f"{X_IS} {WHERE}(en).metadata {FIRST}",
            ],
            "X+": [f"{X_IS} ibi.translation(pt) {{rep P}} ibi.translation(en) {{rep E}}"],
            "M": ["ibi {rep M}"],
            "P:": ["ibi.metadata {rep M}"],
        },
        ["X+:", "M | X+", "P:"],
        "missing M",
        "pt",
        depends_on_language=True,
    ),
    "metadata without a usable URL are not replaced if other routes are dead ends": Case(
        "/X+:",
        {
            "X+:": [
                f"{X_IS} ibi.translation(pt).metadata {{rep M}}",
                f"{X_IS} ibi.translation(pt) {{rep P}} ibi.translation(en).metadata {{rep M}}",
            ],
            "M": ["ibi {rep M}"],
            "P:": ["ibi {rep P} ibi.metadata {rep N}"],
        },
        ["X+:", "M | P:", "N"],
        "missing P",
        "pt, en",
        depends_on_language=True,
    ),
    "a language without a usable URL is not available": Case(
        "/X+",
        {"X+": [f"{ENGLISH} {WHERE}(pt) data:,"]},
        ["X+"],
        FIRST,
        "pt",
        depends_on_language=True,
    ),
    "earlier answers about first steps are used again": Case(
        "/X+!:+",
        {
            "X+!:+": [f"{X_IS} {WHERE}.lastedition.metadata.translation {FIRST}"],
            "X+": [
                f"{X_IS} {WHERE} {FIRST} ibi.translation {{rep X}} ibi.translation(pt) {{rep P}}"
            ],
            "P!:+": ["ibi.lastedition.metadata {rep X}"],
            "P": [f"url {SECOND}"],
        },
        ["X+!:+", "X+", "P!:+", "P"],
        SECOND,
        "pt",
        depends_on_language=True,
    ),
    "an earlier answer may have the URL for another question": Case(
        "/X+:+",
        {
            "X+:+": ["ibi.translation(en).metadata {rep X}"],
            "X+": [f"{WHERE}(en) {FIRST}"],
        },
        ["X+:+", "X+", "X+(en):+", "X:+"],
        FIRST,
        "pt, en",
        depends_on_language=True,
    ),
    "a cycle of one item with another form of its identifier": Case(
        "/I!+:",
        {
            "I!+:": ["ibi.lastedition.translation(en).metadata {rep M}"],
            "I!+": ["ibi.nextedition {rep Z ibip I}"],
        },
        ["I!+:", "I!+"],
        "loop I",
        "pt",
        depends_on_language=True,
    ),
    "an earlier dead end is tried again with another language": Case(
        "/X!+(pt-BR)",
        {
            "X!+(pt-BR)": ["ibi.lastedition {rep Z}", "ibi.nextedition {rep Y}"],
            "Z+(pt-BR)": ["ibi {rep Z}"],
            "Y!+(pt-BR)": ["ibi.nextedition {rep Q}"],
            "Q!+(pt-BR)": ["ibi.lastedition {rep Z}"],
            "Z+(pt)": [f"{WHERE}(pt) {FIRST}"],
        },
        ["X!+(pt-BR)", "Z+(pt-BR) | Y!+(pt-BR)", "Q!+(pt-BR)", "Z+(pt)"],
        FIRST,
    ),
    "pt-BR is requested, but only pt exists": Case(
        "/X+(pt-BR):",
        {"X+(pt-BR):": [X_IS], "X+(pt):": [f"{WHERE}(pt).metadata {FIRST}"]},
        ["X+(pt-BR):", "X+(pt):"],
        FIRST,
        "en",
    ),
    "pt-BR of a last edition in another Archive is requested, but only pt exists": Case(
        "/X!+(pt-BR)",
        {
            "X!+(pt-BR)": [f"{X_IS} ibi.lastedition {{rep Y}}"],
            "Y+(pt-BR)": ["ibi {rep Y}"],
            "Y+(pt)": [f"{WHERE}(pt) {FIRST}"],
        },
        ["X!+(pt-BR)", "Y+(pt-BR)", "Y+(pt)"],
        FIRST,
    ),
    "pt-BR of metadata in a format is replaced by pt": Case(
        "/X:(oai_dc)+(pt-BR)",
        {
            "X:(oai_dc)+(pt-BR)": [f"{X_IS} ibi.metadata(oai_dc) {{rep X}}"],
            "X:(oai_dc)+(pt)": [f"url.metadata(oai_dc).translation(pt) {FIRST}"],
        },
        ["X:(oai_dc)+(pt-BR)", "X:(oai_dc)+(pt)"],
        FIRST,
    ),
    "pt-BR of metadata without the format is replaced by pt": Case(
        "/X:(oai_dc)+(pt-BR)",
        {
            "X:(oai_dc)+(pt-BR)": [X_IS],
            "X:(oai_dc)+(pt)": [f"url.metadata(oai_dc).translation(pt) {FIRST}"],
        },
        ["X:(oai_dc)+(pt-BR)", "X:(oai_dc)+(pt)"],
        FIRST,
    ),
    "metadata without the format lead nowhere if no translation has the format": Case(
        "/X:(oai_dc)+", {"X:(oai_dc)+": [X_IS]}, ["X:(oai_dc)+"], "missing X", "pt"
    ),
    "a translation of metadata has the format, but the metadata do not": Case(
        "/X:(oai_dc)+",
        {
            "X:(oai_dc)+": [f"{X_IS} ibi.metadata(oai_dc).translation(pt) {{rep N}}"],
            "N:(oai_dc)": [f"url.metadata(oai_dc) {FIRST}"],
        },
        ["X:(oai_dc)+", "N:(oai_dc)"],
        FIRST,
        "pt",
        depends_on_language=True,
    ),
    "if the chosen translation was removed, the alert is about the item itself": Case(
        "/X+",
        {"X+": [f"{X_IS} ibi.translation(pt) {{rep P}}"], "P": ["state Deleted"], "X": [X_IS]},
        ["X+", "P", "X"],
        "missing X",
        "pt",
        depends_on_language=True,
    ),
    "if the metadata of a chosen translation were removed, the alert names the translation": Case(
        "/X+:",
        {
            "X+:": [f"{X_IS} ibi.translation(pt) {{rep P}}"],
            "P:": ["ibi {rep P} ibi.metadata {rep M}"],
            "M": ["state Deleted"],
        },
        ["X+:", "P:", "M", "X:"],
        "missing P",
        "pt",
        depends_on_language=True,
    ),
    "if both chosen translations were removed, the alert is about the item itself": Case(
        "/X+",
        {
            "X+": [f"{X_IS} ibi.translation(pt) {{rep P}} ibi.translation(en) {{rep E}}"],
            "P": ["state Deleted"],
            "E": ["", "state Deleted"],
        },
        ["X+", "P", "E", "X"],
        "missing X",
        "pt, en",
        depends_on_language=True,
    ),
    "if the chosen translation was removed and an Archive is silent, the alert says so": Case(
        "/X+",
        {"X+": [f"{X_IS} ibi.translation(pt) {{rep P}}"], "P": ["state Deleted"]},
        ["X+", "P", "X"],
        "silent X",
        "pt",
        silent=1,
        depends_on_language=True,
    ),
    "a removed translation is not reached": Case(
        "/X+(pt)",
        {"X+(pt)": [f"{X_IS} ibi.translation(pt) {{rep P}}"], "P": ["state Deleted"]},
        ["X+(pt)", "P"],
        "missing X",
    ),
    "pt does not accept pt-BR": Case(
        "/X+(pt)", {"X+(pt)": [f"{X_IS} {WHERE}(pt-BR) {FIRST}"]}, ["X+(pt)"], "missing X", "pt-BR"
    ),
    "pt-BR of an unknown item": Case("/X+(pt-BR)", {}, ["X+(pt-BR)"], "unknown X"),
    "pt-BR of a removed item": Case(
        "/X+(pt-BR)", {"X+(pt-BR)": ["state Deleted"]}, ["X+(pt-BR)"], "removed X archive0"
    ),
    "pt-BR of a removed last edition is pt-BR or pt of the edition before it": Case(
        "/X!+(pt-BR)",
        {
            "X!+(pt-BR)": ["ibi.lastedition {rep Y}"],
            "Y+(pt-BR)": ["state Deleted"],
            "X+(pt-BR)": ["ibi {rep X}"],
            "X+(pt)": [f"{WHERE}(pt) {FIRST}"],
        },
        ["X!+(pt-BR)", "Y+(pt-BR)", "X+(pt-BR)", "X+(pt)"],
        FIRST,
    ),
    "a removed item may be the last edition and a translation of another item": Case(
        "/X+!",
        {
            "X+!": ["ibi.translation(en) {rep Y} ibi.nextedition {rep Y}"],
            "Y!": ["state Deleted"],
            "X!": ["ibi.nextedition {rep Y}"],
            "X": [f"url {FIRST}"],
        },
        ["X+!", "Y!", "X!", "X"],
        FIRST,
        "en",
        depends_on_language=True,
    ),
    "a removed edition is passed over in each language": Case(
        "/X+!",
        {
            "X+!": [f"{X_IS} ibi.translation(pt) {{rep P}} ibi.translation(en) {{rep E}}"],
            "P!": ["ibi.nextedition {rep Q}"],
            "Q!": ["state Deleted"],
            "P": ["state Deleted"],
            "E!": [f"url.lastedition {FIRST}"],
        },
        ["X+!", "P!", "Q!", "P", "E!"],
        FIRST,
        "pt, en",
        depends_on_language=True,
    ),
    "pt-BR is replaced by pt in each chosen language": Case(
        "/X+:+(pt-BR)",
        {
            "X+:+(pt-BR)": [
                f"url.translation(pt).metadata {FIRST} url.translation(en).metadata {FIRST}"
            ],
            "X+(en):+(pt)": [f"{WHERE}(en).metadata.translation(pt) {SECOND}"],
        },
        ["X+:+(pt-BR)", "X+(pt):+(pt)", "X+", "X+(en):+(pt)"],
        SECOND,
        "pt, en",
        depends_on_language=True,
    ),
    "pt-BR with restricted access is not replaced by pt": Case(
        "/X+(pt-BR)",
        {"X+(pt-BR)": [f"{X_IS} ibi.translation(pt-BR) {{rep P}}"], "P": ["ibi {rep P}"]},
        ["X+(pt-BR)", "P"],
        "missing P",
    ),
    "pt-BR that no Archive has is replaced by pt": Case(
        "/X+(pt-BR)",
        {
            "X+(pt-BR)": [f"{X_IS} ibi.translation(pt-BR) {{rep P}}"],
            "X+(pt)": [f"{WHERE}(pt) {FIRST}"],
        },
        ["X+(pt-BR)", "P", "X+(pt)"],
        FIRST,
    ),
    "if the Original is required, the language is chosen in each answer": Case(
        f"/X+{ORIGINAL}",
        {
            "X+": [
                f"{WHERE}(en) {FIRST} state.translation(en) Original"
                f" {WHERE}(pt) {FIRST} state.translation(pt) Copy",
                f"{WHERE}(pt) {SECOND} state.translation(pt) Original",
            ]
        },
        ["X+"],
        SECOND,
        "pt",
        depends_on_language=True,
    ),
    "a translation that is a Copy is not replaced by another question about it": Case(
        f"/X+{ORIGINAL}",
        {"X+": [f"{WHERE}(pt) {FIRST} state.translation(pt) Copy"]},
        ["X+"],
        "missing X",
        "pt",
        depends_on_language=True,
    ),
    "an answer without any translation leads to the item itself": Case(
        "/X+", {"X+": [X_IS], "X": [f"url {FIRST}"]}, ["X+", "X"], FIRST, "pt"
    ),
}
CASES = {**STEP_3, **STEP_4, **STEP_5}


def test_each_case_has_the_expected_questions_and_outcome() -> None:
    for sentence, case in CASES.items():
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


def test_an_original_is_only_accepted_when_all_archives_have_answered() -> None:
    analysis = Analysis(parse_persistent_target(insert_identifiers(f"/X{ORIGINAL}")))
    assert analysis.waits_for_all
    (question,) = analysis.questions
    pairs = read(f"url {FIRST} state Original")
    assert analysis.add_answer(Answer(source_of(0), question, pairs)) is None
    assert isinstance(analysis.finish_round(), Redirect)
    assert not Analysis(parse_persistent_target(insert_identifiers("/X"))).waits_for_all


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
    st.lists(st.sampled_from(STEPS), max_size=4).map("".join),
    st.sampled_from(STRANGE),
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
