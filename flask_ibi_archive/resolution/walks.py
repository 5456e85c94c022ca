"""The walk through one answer: as far as it names the steps that the verbs spell ([R] 6.2).

A translation without a language is decided on the way, by what the reader prefers.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum, auto

from flask_ibi_archive.protocol.relation_targets import step_to
from flask_ibi_archive.protocol.relations import Step, StepKind
from flask_ibi_archive.resolution.answer import Offer, Offers, Steps
from flask_ibi_archive.resolution.languages import (
    ANY_LANGUAGE,
    LanguageRange,
    find_language,
    is_best,
)


@dataclass(frozen=True, slots=True)
class ReaderPreferences:
    """What is not told to Archives ([R] 6.2).

    :param ranges: the languages preferred.
    :param requires_original: whether nothing but the Original will do.
    """

    ranges: tuple[LanguageRange, ...] = ()
    requires_original: bool = False

    @property
    def has_preferences(self) -> bool:
        """Whether any language at all is wanted rather than others."""
        return any(one.quality > 0 and one.tag != ANY_LANGUAGE for one in self.ranges)


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
