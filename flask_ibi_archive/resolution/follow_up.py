"""How far an answer leads, and which identifier to go on with from there ([R] 6.2)."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum, auto

from flask_ibi_archive.identifiers import Identifier
from flask_ibi_archive.protocol.relation_targets import step_to
from flask_ibi_archive.protocol.relations import Step, StepKind
from flask_ibi_archive.resolution.answer import Offer, Offers, Question, Steps
from flask_ibi_archive.resolution.languages import ReaderPreferences, find_language, is_best


class End(Enum):
    """Where the walk through an answer ends."""

    WHOLE = auto()  # at the end of the steps
    UNNAMED = auto()  # at a step that the answer does not name
    GAP = auto()  # at a language which may not be the best there is
    ITSELF = auto()  # at a translation to be left out: no language suits
    SHORTER = auto()  # at a language xx-YY that is not to be had: xx may be
    REFUSED = auto()  # at a language that was tried in vain


class Walk:
    """Walks through the steps of a question as far as an answer names them.

    :param refused: the beginnings of the relation that end with a language that was tried in vain.
    :param minds_gaps: whether to stop where a filtered answer may not name the best language.
    :ivar chosen: the steps walked through, their languages decided.
    :ivar picks: the beginnings of these that end with a language for which there may be another.
    :ivar by_language: whether what the reader prefers was looked at.
    """

    def __init__(
        self,
        offers: Offers,
        path: Steps,
        reader: ReaderPreferences,
        refused: AbstractSet[Steps],
        minds_gaps: bool,
    ) -> None:
        self.named = offers.named
        self.path = path
        self.reader = reader
        self.refused = refused
        self.minds_gaps = minds_gaps
        self.chosen: Steps = ()
        self.picks: list[Steps] = []
        self.by_language = False

    def run(self) -> End:
        """Walk, and give where it ended; ``chosen`` are the steps behind."""
        for step in self.path:
            found = self._decide() if is_open(step) else self._follow(step)
            if isinstance(found, End):
                return found
            self.chosen = found
        return End.WHOLE

    def stated_language(self) -> list[Steps]:
        """Return the beginning up to the step that is not named, where that states a language
        xx-YY.
        """
        step = self.path[len(self.chosen)]
        return [(*self.chosen, step)] if shorten(step) else []

    def _follow(self, step: Step) -> End | Steps:
        ahead = (*self.chosen, step)
        if ahead in self.refused:
            return End.SHORTER if shorten(step) else End.REFUSED
        # metadata on the way to a translation need not carry the format, and are not named then
        lies_on_the_way = step.kind is StepKind.METADATA and len(ahead) < len(self.path)
        if not any(steps[: len(ahead)] == ahead for steps in self.named) and not (
            lies_on_the_way and step.parameter is not None
        ):
            return End.UNNAMED
        if shorten(step):
            self.picks.append(ahead)
        return ahead

    def _decide(self) -> End | Steps:
        length = len(self.chosen)
        languages = {
            steps[length].parameter
            for steps in self.named
            if len(steps) > length and steps[:length] == self.chosen
        }
        if not languages:
            return End.UNNAMED
        self.by_language = True
        suitable = find_language(
            self.reader.ranges,
            [
                language
                for language in languages
                if language is not None and self._ahead(language) not in self.refused
            ],
        )
        is_sure = suitable is not None and is_best(self.reader.ranges, suitable)
        if self.minds_gaps and not is_sure and self._may_lack_languages():
            return End.GAP
        if suitable is not None:
            ahead = self._ahead(suitable)
        else:
            found = self._find_itself(languages)
            if found is None:
                return End.ITSELF
            ahead = found
        if ahead in self.refused:
            return End.REFUSED
        self.picks.append(ahead)
        return ahead

    def _may_lack_languages(self) -> bool:
        """Tell whether an item elsewhere may be known by a language that is not named.

        A filtered answer that holds a URL names the whole relation alone, and nothing leads on from
        an item elsewhere; where it names this step by itself too, it names all of them.
        """
        length = len(self.chosen) + 1
        return (
            length < len(self.path)
            and self.reader.has_preferences
            and not any(len(steps) == length and steps[:-1] == self.chosen for steps in self.named)
        )

    def _find_itself(self, languages: AbstractSet[str | None]) -> Steps | None:
        """Return the relation that stays where the walk is: no language, or that of the same
        identifier.
        """
        if None in languages:
            return self._ahead(None)
        here = self.named.get(self.chosen, Offer()).ibi
        for language in sorted(filter(None, languages)):
            ahead = self._ahead(language)
            if not set(here).isdisjoint(self.named.get(ahead, Offer()).ibi):
                return ahead
        return None

    def _ahead(self, language: str | None) -> Steps:
        return (*self.chosen, step_to(StepKind.TRANSLATION, language))


def is_open(step: Step) -> bool:
    """Tell whether a step is a translation without a language."""
    return step.kind is StepKind.TRANSLATION and step.parameter is None


def shorten(step: Step) -> str | None:
    """Return the language of a translation that states a country too."""
    if step.kind is not StepKind.TRANSLATION or "-" not in (step.parameter or ""):
        return None
    return str(step.parameter).partition("-")[0]


@dataclass(frozen=True, slots=True)
class Onward:
    """An identifier to go on with.

    :param forms: one or two.
    :param steps: what is asked of it.
    :param rest: what comes behind that, where a part alone is asked.
    :param length: of the prefix that led to it.
    """

    forms: tuple[Identifier, ...]
    steps: Steps
    rest: Steps = ()
    length: int = 0


def find_onward(
    offers: Offers,
    question: Question,
    rest: Steps,
    reader: ReaderPreferences,
    chosen: Steps,
    end: End,
) -> Onward | None:
    """Return how to go on from an answer, None where it tells of nothing to go on with.

    :param rest: what is wanted behind the steps of the question.
    :param chosen: the steps that were walked through, their languages decided.
    :param end: where the walk ended.
    Source: [R] 6.2.
    """
    onwards = _Onwards(offers, question, rest, reader, chosen)
    return next((found for find in _ONWARDS[end] if (found := find(onwards))), None)


class _Onwards:
    """Finds the identifier to go on with from where a walk ended."""

    def __init__(
        self,
        offers: Offers,
        question: Question,
        rest: Steps,
        reader: ReaderPreferences,
        chosen: Steps,
    ) -> None:
        self.offers = offers
        self.question = question
        self.rest = rest
        self.reader = reader
        self.chosen = chosen
        self.path = question.verbs.relation.steps
        #: The step at which the walk ended, and what is wanted behind it.
        self.here = self.path[len(chosen) : len(chosen) + 1]
        self.ahead = self.path[len(chosen) + 1 :] + rest

    def by_prefix(self) -> Onward | None:
        """Ask what the longest prefix leads to for what remains."""
        for length in range(len(self.chosen), 0, -1):
            ibi = self._ibi(self.chosen[:length])
            steps = _format_within(self.chosen[:length]) + self.path[length:] + self.rest
            # Metadata that are their own metadata lead to themselves: nothing is won by that.
            stays = steps == self.path + self.rest and not self._itself().isdisjoint(ibi)
            if ibi and not stays:
                return Onward(ibi, steps, length=length)
        return None

    def by_next_edition(self) -> Onward | None:
        """Ask the next edition for the same."""
        if self.path[:1] != (step_to(StepKind.LAST_EDITION),) or not self.offers.next_edition:
            return None
        return Onward(self.offers.next_edition, self.path + self.rest)

    def by_part(self) -> Onward | None:
        """Ask for the steps up to here alone, to learn all languages."""
        return self._ask_again(self.chosen + self.here, rest=self.ahead)

    def by_part_of_original(self) -> Onward | None:
        """Ask for all steps but the last alone: what is no item has the state of what stands before
        it.

        A Copy's metadata have no identifier by which those of the Original could be asked for.
        """
        found = self.offers.named.get(self.chosen, Offer())
        if not self.reader.requires_original or found.url is None or len(self.chosen) < 2:
            return None
        return self._ask_again(self.chosen[:-1], rest=self.chosen[-1:] + self.rest)

    def by_language(self) -> Onward | None:
        """Ask by the language that a part was asked for to learn, where it has no identifier."""
        last = self.chosen[-1:]
        if not self.rest or not last or last[0].kind is not StepKind.TRANSLATION:
            return None
        front = self.chosen[:-1] if is_open(last[0]) else self.chosen
        return self._ask_again(front + self.rest)

    def by_leaving_out(self) -> Onward | None:
        """Ask without the translation: the item itself will do."""
        if ibi := self._ibi(self.chosen) if self.chosen else ():
            steps = _format_within(self.chosen) + self.ahead
            return Onward(ibi, steps, length=len(self.chosen))
        return self._ask_again(self.chosen + self.ahead)

    def by_leaving_out_unnamed(self) -> Onward | None:
        """Likewise where the answer names no translation at all of what is reached."""
        if not self.here or not is_open(self.here[0]):
            return None
        if self.chosen and self.chosen not in self.offers.named:
            return None
        return self.by_leaving_out()

    def by_shorter_language(self) -> Onward | None:
        """Ask for the language alone, without the country."""
        step = step_to(StepKind.TRANSLATION, shorten(self.here[0]))
        return self._ask_again((*self.chosen, step, *self.ahead))

    def _ask_again(self, steps: Steps, rest: Steps = ()) -> Onward:
        return Onward((self.question.ibi,), steps, rest)

    def _ibi(self, steps: Steps) -> tuple[Identifier, ...]:
        return self.offers.named.get(steps, Offer()).ibi

    def _itself(self) -> set[Identifier]:
        return {self.question.ibi, *self._ibi(())}


#: How to go on from where a walk ended: the first that is possible.
_ONWARDS = {
    End.WHOLE: (
        _Onwards.by_prefix,
        _Onwards.by_part_of_original,
        _Onwards.by_language,
        _Onwards.by_next_edition,
    ),
    End.UNNAMED: (
        _Onwards.by_prefix,
        _Onwards.by_next_edition,
        _Onwards.by_leaving_out_unnamed,
    ),
    End.GAP: (_Onwards.by_part,),
    End.ITSELF: (_Onwards.by_leaving_out,),
    End.SHORTER: (_Onwards.by_shorter_language,),
    End.REFUSED: (),
}


def _format_within(steps: Steps) -> Steps:
    """Return the step that asks for metadata in the format that steps lead to."""
    return tuple(
        [step for step in steps if step.kind is StepKind.METADATA and step.parameter is not None]
    )
