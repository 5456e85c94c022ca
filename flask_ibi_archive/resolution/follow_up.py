"""Follow-up questions: where an answer does not name all steps, which identifier to ask next.

:class:`StepMatch` follows the steps of a question through one answer and chooses the language of
each translation. :func:`find_follow_up` says how to continue where it stops. Source: [R] 6.2.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum, auto

from flask_ibi_archive.identifiers import Identifier
from flask_ibi_archive.protocol.relation_targets import create_step
from flask_ibi_archive.protocol.relations import Step, StepKind
from flask_ibi_archive.resolution.answer import (
    NO_ENTRY,
    AnswerContent,
    Question,
    RelationEntry,
    Steps,
)
from flask_ibi_archive.resolution.languages import (
    ReaderPreferences,
    find_language,
    is_first_choice,
)


class Stop(Enum):
    """Where following the steps of a question through an answer stops."""

    END = auto()  # at the end of the steps
    NOT_NAMED = auto()  # at a step that the answer does not name
    INCOMPLETE = auto()  # at a translation of which the answer may not name the best language
    SKIP = auto()  # at a translation to be left out, since no language suits
    SHORTEN = auto()  # at a rejected language xx-YY; xx may exist
    REJECTED = auto()  # at a language that was tried without success


class StepMatch:
    """The steps of a question as far as an answer names them, with the languages chosen.

    :param path: the steps of the question.
    :param rejected: beginnings of the path that end with a language tried without success.
    :param checks_languages: whether to stop where the answer may not name the best language.
    :ivar stop: where it stops.
    :ivar chosen: the steps before that point; a chosen language replaces an open translation.
    :ivar choices: the beginnings of ``chosen`` that end with a language for which there may be
        another.
    :ivar by_language: whether the reader's preferences were used.
    """

    def __init__(
        self,
        content: AnswerContent,
        path: Steps,
        reader: ReaderPreferences,
        rejected: frozenset[Steps] = frozenset(),
        checks_languages: bool = True,
    ) -> None:
        self.content = content
        self.path = path
        self.reader = reader
        self.rejected = rejected
        self.checks_languages = checks_languages
        self.chosen: Steps = ()
        self.choices: list[Steps] = []
        self.by_language = False
        self.stop = self._match()

    @property
    def entry(self) -> RelationEntry | None:
        """What the answer gives for all the steps, None if it does not name them all."""
        return self.content.entries.get(self.chosen) if self.stop is Stop.END else None

    def match_next_choice(self, has_follow_up: bool) -> StepMatch | None:
        """Return the match with the next best language, None if there is no other language.

        :param has_follow_up: whether there was a follow-up question. Without one, a language xx-YY
            that the answer does not name is replaced by xx.
        """
        rejected, checks_languages = self.rejected, self.checks_languages
        if self.stop is Stop.INCOMPLETE:
            checks_languages = False
        elif self.stop is Stop.NOT_NAMED and not has_follow_up and self._states_country():
            rejected |= {(*self.chosen, self.path[len(self.chosen)])}
        elif self.choices:
            rejected |= {self.choices[-1]}
        else:
            return None
        return StepMatch(self.content, self.path, self.reader, rejected, checks_languages)

    def _states_country(self) -> bool:
        return remove_country(self.path[len(self.chosen)]) is not None

    def _match(self) -> Stop:
        for step in self.path:
            found = self._choose_language() if is_open(step) else self._match_step(step)
            if isinstance(found, Stop):
                return found
            self.chosen = found
        return Stop.END

    def _match_step(self, step: Step) -> Stop | Steps:
        ahead = (*self.chosen, step)
        if ahead in self.rejected:
            return Stop.SHORTEN if remove_country(step) else Stop.REJECTED
        # Metadata that a translation follows need not have the format, and are not named then.
        may_be_unnamed = (
            step.kind is StepKind.METADATA
            and step.parameter is not None
            and len(ahead) < len(self.path)
        )
        if not may_be_unnamed and not any(
            steps[: len(ahead)] == ahead for steps in self.content.entries
        ):
            return Stop.NOT_NAMED
        if remove_country(step):
            self.choices.append(ahead)
        return ahead

    def _choose_language(self) -> Stop | Steps:
        length = len(self.chosen)
        languages = {
            steps[length].parameter
            for steps in self.content.entries
            if len(steps) > length and steps[:length] == self.chosen
        }
        if not languages:
            return Stop.NOT_NAMED
        self.by_language = True
        ranges = self.reader.ranges
        acceptable = [
            language
            for language in languages
            if language is not None and self._add_translation(language) not in self.rejected
        ]
        language = find_language(ranges, acceptable)
        is_best = language is not None and is_first_choice(ranges, language)
        if self.checks_languages and not is_best and self._may_lack_languages():
            return Stop.INCOMPLETE
        ahead = (
            self._find_itself(languages) if language is None else self._add_translation(language)
        )
        if ahead is None:
            return Stop.SKIP
        if ahead in self.rejected:
            return Stop.REJECTED
        self.choices.append(ahead)
        return ahead

    def _may_lack_languages(self) -> bool:
        """Return whether there may be a translation that the answer does not name.

        A filtered answer with a URL names only the whole relation, so it does not name items of
        other Archives. If it names this step by itself too, it names all translations.
        """
        length = len(self.chosen) + 1
        return (
            length < len(self.path)
            and self.reader.has_languages
            and not any(
                len(steps) == length and steps[:-1] == self.chosen for steps in self.content.entries
            )
        )

    def _find_itself(self, languages: AbstractSet[str | None]) -> Steps | None:
        """Return the steps with a translation that is the item itself, None if there is none.

        That is the translation without a language, or one that has the identifier of the item.
        """
        if None in languages:
            return self._add_translation(None)
        here = set(self.get_ibi(self.chosen))
        for language in sorted(filter(None, languages)):
            ahead = self._add_translation(language)
            if not here.isdisjoint(self.get_ibi(ahead)):
                return ahead
        return None

    def _add_translation(self, language: str | None) -> Steps:
        return (*self.chosen, create_step(StepKind.TRANSLATION, language))

    def get_ibi(self, steps: Steps) -> tuple[Identifier, ...]:
        """Return the identifier that the answer gives for some steps, () if it gives none."""
        return self.content.entries.get(steps, NO_ENTRY).ibi


def is_open(step: Step) -> bool:
    """Return whether a step is a translation without a language."""
    return step.kind is StepKind.TRANSLATION and step.parameter is None


def remove_country(step: Step) -> str | None:
    """Return the language xx of a translation into xx-YY, None for any other step."""
    if step.kind is not StepKind.TRANSLATION or "-" not in (step.parameter or ""):
        return None
    return str(step.parameter).partition("-")[0]


@dataclass(frozen=True, slots=True)
class FollowUp:
    """An item to ask about next.

    :param forms: one or two forms of its identifier.
    :param steps: the steps to ask for.
    :param remaining: the steps that come after them, if only a part is asked for now.
    :param length: the number of steps of the question that led to the item.
    """

    forms: tuple[Identifier, ...]
    steps: Steps
    remaining: Steps = ()
    length: int = 0


def find_follow_up(match: StepMatch, question: Question, remaining: Steps) -> FollowUp | None:
    """Return how to continue after an answer, None if the answer does not help any further.

    :param match: the steps of the question as far as the answer names them.
    :param remaining: the steps wanted after those of the question.
    Source: [R] 6.2.
    """
    finder = _FollowUpFinder(match, question, remaining)
    for find in _FOLLOW_UPS[match.stop]:
        if found := find(finder):
            return found
    return None


class _FollowUpFinder:
    """Finds the item to ask about after an answer; each method is one way to continue."""

    def __init__(self, match: StepMatch, question: Question, remaining: Steps) -> None:
        self.match = match
        self.question = question
        self.remaining = remaining
        self.chosen = match.chosen
        length = len(match.chosen)
        #: The first step that was not matched, and the steps wanted after it.
        self.current = match.path[length : length + 1]
        self.ahead = match.path[length + 1 :] + remaining

    def by_longest_prefix(self) -> FollowUp | None:
        """Ask the item that the longest known prefix leads to for the other steps."""
        wanted = self.match.path + self.remaining
        for length in range(len(self.chosen), 0, -1):
            prefix = self.chosen[:length]
            ibi = self.match.get_ibi(prefix)
            steps = _find_format(prefix) + wanted[length:]
            # metadata that are their own metadata: the question would be the same
            is_same = steps == wanted and not self._item_forms().isdisjoint(ibi)
            if ibi and not is_same:
                return FollowUp(ibi, steps, length=length)
        return None

    def by_next_edition(self) -> FollowUp | None:
        """Ask the next edition for the same steps."""
        path, next_edition = self.match.path, self.match.content.next_edition
        if path[:1] != (create_step(StepKind.LAST_EDITION),) or not next_edition:
            return None
        return FollowUp(next_edition, path + self.remaining)

    def by_part(self) -> FollowUp | None:
        """Ask only for the steps up to the open translation, to learn all its languages."""
        return self._ask_again(self.chosen + self.current, self.ahead)

    def by_part_of_original(self) -> FollowUp | None:
        """Ask for all steps but the last, to find the Original whose metadata are wanted.

        Metadata that are no item have the state of their item, and no identifier: those of a Copy
        do not lead to those of its Original.
        """
        match = self.match
        entry = match.content.entries.get(self.chosen, NO_ENTRY)
        if not match.reader.requires_original or entry.url is None or len(self.chosen) < 2:
            return None
        return self._ask_again(self.chosen[:-1], self.chosen[-1:] + self.remaining)

    def by_language(self) -> FollowUp | None:
        """Ask for all steps with the chosen language, if the translation has no identifier."""
        last = self.chosen[-1:]
        if not self.remaining or not last or last[0].kind is not StepKind.TRANSLATION:
            return None
        front = self.chosen[:-1] if is_open(last[0]) else self.chosen
        return self._ask_again(front + self.remaining)

    def without_translation(self) -> FollowUp | None:
        """Ask for the steps without the translation: the item itself is used."""
        if ibi := self.match.get_ibi(self.chosen) if self.chosen else ():
            steps = _find_format(self.chosen) + self.ahead
            return FollowUp(ibi, steps, length=len(self.chosen))
        return self._ask_again(self.chosen + self.ahead)

    def without_unnamed_translation(self) -> FollowUp | None:
        """Ask for the steps without the translation, if the answer names no translation at all."""
        if not self.current or not is_open(self.current[0]):
            return None
        if self.chosen and self.chosen not in self.match.content.entries:
            return None
        return self.without_translation()

    def without_country(self) -> FollowUp | None:
        """Ask for the language without the country."""
        step = create_step(StepKind.TRANSLATION, remove_country(self.current[0]))
        return self._ask_again((*self.chosen, step, *self.ahead))

    def _ask_again(self, steps: Steps, remaining: Steps = ()) -> FollowUp:
        return FollowUp((self.question.ibi,), steps, remaining)

    def _item_forms(self) -> set[Identifier]:
        return {self.question.ibi, *self.match.get_ibi(())}


#: The ways to continue from each stop; the first possible one is used.
_FOLLOW_UPS: dict[Stop, tuple[Callable[[_FollowUpFinder], FollowUp | None], ...]] = {
    Stop.END: (
        _FollowUpFinder.by_longest_prefix,
        _FollowUpFinder.by_part_of_original,
        _FollowUpFinder.by_language,
        _FollowUpFinder.by_next_edition,
    ),
    Stop.NOT_NAMED: (
        _FollowUpFinder.by_longest_prefix,
        _FollowUpFinder.by_next_edition,
        _FollowUpFinder.without_unnamed_translation,
    ),
    Stop.INCOMPLETE: (_FollowUpFinder.by_part,),
    Stop.SKIP: (_FollowUpFinder.without_translation,),
    Stop.SHORTEN: (_FollowUpFinder.without_country,),
    Stop.REJECTED: (),
}


def _find_format(steps: Steps) -> Steps:
    """Return the step that asks for metadata in the format of the given steps, () if none does."""
    return tuple(
        [step for step in steps if step.kind is StepKind.METADATA and step.parameter is not None]
    )
