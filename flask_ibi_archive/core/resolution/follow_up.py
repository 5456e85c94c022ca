"""Follow-up questions: the next question if an answer does not contain all requested steps.

:class:`StepMatch` compares the steps of a question with one answer. A step is an open translation
if it is a translation without a language. The class chooses a language for each open translation.
If the answer contains only some of the steps, :func:`find_follow_up` returns the item and the steps
of the next question. Source: [R] 6.2.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum, auto

from flask_ibi_archive.core.identifiers import Identifier
from flask_ibi_archive.core.protocol.languages import (
    ReaderPreferences,
    find_language,
    is_first_choice,
)
from flask_ibi_archive.core.protocol.relation_targets import create_step
from flask_ibi_archive.core.protocol.relations import Step, StepKind
from flask_ibi_archive.core.resolution.answer import (
    NO_ENTRY,
    AnswerContent,
    Question,
    RelationEntry,
    Steps,
)


class Stop(Enum):
    """The reason why the comparison of a question with an answer stopped."""

    END = auto()  # the answer contains all steps
    MISSING_STEP = auto()  # the answer does not contain the next step
    INCOMPLETE = auto()  # the answer may not contain the best language of the next step
    SKIP_STEP = auto()  # no translation suits the reader, or the last edition was removed
    DROP_COUNTRY = auto()  # the language xx-YY was rejected: continue with xx
    REJECTED = auto()  # the language was tried without success, and no other is left


class StepMatch:
    """The first steps of a question that an answer contains, with the chosen languages.

    :param content: the content of the answer.
    :param path: the steps of the question.
    :param reader: the preferences of the reader.
    :param rejected: sequences of first steps of the path. Each sequence ends with a language that
        was tried without success, or with a last edition that was removed.
    :param checks_languages: whether to stop if the answer may not contain the best language.
    :ivar stop: the reason why the comparison stopped.
    :ivar chosen: the steps that the answer contains. Open translations have the chosen language.
    :ivar choices: sequences of first steps of ``chosen``. Each sequence ends with a language that
        may be replaced by another language.
    :ivar has_language: whether a language was chosen. None was chosen if the item itself is used,
        because no translation suits the reader.
    :ivar depends_on_language: whether the language preferences of the reader were used.
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
        self.has_language = self.depends_on_language = False
        self.stop = self._match()

    @property
    def entry(self) -> RelationEntry | None:
        """The values for all steps of the question, or None if the answer lacks some steps."""
        return self.content.entries.get(self.chosen) if self.stop is Stop.END else None

    def match_next_language(self, has_follow_up: bool) -> StepMatch | None:
        """Return the match with the next best language, or None if no language is left.

        :param has_follow_up: whether this match had a follow-up question. If it had none and the
            answer does not contain the language xx-YY, the next language is xx.
        """
        rejected, checks_languages = self.rejected, self.checks_languages
        if self.stop is Stop.INCOMPLETE:
            checks_languages = False
        elif self.stop is Stop.MISSING_STEP and not has_follow_up and self._has_country():
            rejected |= {(*self.chosen, self.path[len(self.chosen)])}
        elif self.choices:
            rejected |= {self.choices[-1]}
        else:
            return None
        return StepMatch(self.content, self.path, self.reader, rejected, checks_languages)

    def reject(self, steps: Steps) -> StepMatch:
        """Return the match without the last edition to which some steps lead."""
        rejected = self.rejected | {steps}
        return StepMatch(self.content, self.path, self.reader, rejected, self.checks_languages)

    def _has_country(self) -> bool:
        return get_language_without_country(self.path[len(self.chosen)]) is not None

    def _match(self) -> Stop:
        """Extend ``chosen`` as far as the answer contains the path, and return why it stops."""
        for step in self.path:
            ahead = self._choose_language() if step.is_any_translation else self._match_step(step)
            if isinstance(ahead, Stop):
                return ahead
            self.chosen = ahead
        return Stop.END

    def _match_step(self, step: Step) -> Stop | Steps:
        ahead = (*self.chosen, step)
        if ahead in self.rejected:
            if step.kind is StepKind.LAST_EDITION:
                return Stop.SKIP_STEP
            return Stop.DROP_COUNTRY if get_language_without_country(step) else Stop.REJECTED
        # Metadata may lack the format although a translation of the metadata has the format. Then
        # the answer only contains the relation with the translation.
        may_be_missing = (
            step.kind is StepKind.METADATA
            and step.parameter is not None
            and len(ahead) < len(self.path)
        )
        if not may_be_missing and not any(
            steps[: len(ahead)] == ahead for steps in self.content.entries
        ):
            return Stop.MISSING_STEP
        if get_language_without_country(step):
            self.choices.append(ahead)
            self.has_language = True
        return ahead

    def _choose_language(self) -> Stop | Steps:
        length = len(self.chosen)
        languages = {
            steps[length].parameter
            for steps in self.content.entries
            if len(steps) > length and steps[:length] == self.chosen
        }
        if not languages:
            return Stop.MISSING_STEP
        self.depends_on_language = True
        ranges = self.reader.ranges
        acceptable = [
            language
            for language in languages
            if language is not None and self._add_translation(language) not in self.rejected
        ]
        language = find_language(ranges, acceptable)
        is_best = language is not None and is_first_choice(ranges, language)
        if self.checks_languages and not is_best and self._may_have_more_languages():
            return Stop.INCOMPLETE
        ahead = (
            self._find_untranslated(languages)
            if language is None
            else self._add_translation(language)
        )
        if ahead is None:
            return Stop.SKIP_STEP
        if ahead in self.rejected:
            return Stop.REJECTED
        self.choices.append(ahead)
        self.has_language |= language is not None
        return ahead

    def _may_have_more_languages(self) -> bool:
        """Return whether translations may exist that the answer does not contain.

        If an Archive has a URL for the whole relation, its answer may contain only this relation,
        without items of other Archives. If the answer also contains the relation that ends with
        this step, the answer contains all translations.
        """
        length = len(self.chosen) + 1
        return (
            length < len(self.path)
            and self.reader.has_languages
            and not any(
                len(steps) == length and steps[:-1] == self.chosen for steps in self.content.entries
            )
        )

    def _find_untranslated(self, languages: AbstractSet[str | None]) -> Steps | None:
        """Return the steps with the translation that is the item itself, or None if missing.

        This translation has no language, or it has the same identifier as the item.
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
        """Return the forms of the identifier to which steps lead, or () if it is unknown."""
        return self.content.entries.get(steps, NO_ENTRY).ibi


def get_language_without_country(step: Step) -> str | None:
    """Return the language xx if a step is a translation into xx-YY, otherwise None."""
    if step.kind is not StepKind.TRANSLATION or "-" not in (step.parameter or ""):
        return None
    return str(step.parameter).partition("-")[0]


@dataclass(frozen=True, slots=True)
class FollowUp:
    """The item and the steps of the next question.

    :param forms: one or two forms of the identifier of the item.
    :param steps: the steps of the next question.
    :param remaining: the steps that a later question must contain. This tuple is empty if the next
        question contains all steps.
    :param length: the number of steps of the old question that lead to the item.
    """

    forms: tuple[Identifier, ...]
    steps: Steps
    remaining: Steps = ()
    length: int = 0


def find_follow_up(match: StepMatch, question: Question, remaining: Steps) -> FollowUp | None:
    """Return the item and steps of the next question, or None if the answer is a dead end.

    :param match: says how far the answer follows the steps of the question.
    :param question: the question to which the answer belongs.
    :param remaining: the steps of the persistent URL after those of the question.
    Source: [R] 6.2.
    """
    finder = _FollowUpFinder(match, question, remaining)
    match match.stop:
        case Stop.END:
            return (
                finder.ask_about_known_item()
                or finder.ask_for_original()
                or finder.ask_in_chosen_language()
                or finder.ask_about_next_edition()
            )
        case Stop.MISSING_STEP:
            return (
                finder.ask_about_known_item()
                or finder.ask_about_next_edition()
                or finder.ask_without_missing_translation()
            )
        case Stop.INCOMPLETE:
            return finder.ask_for_all_languages()
        case Stop.SKIP_STEP:
            return finder.ask_without_step()
        case Stop.DROP_COUNTRY:
            return finder.ask_without_country()
        case Stop.REJECTED:
            return None


class _FollowUpFinder:
    """Finds the next question. Each public method tries one way or returns None."""

    def __init__(self, match: StepMatch, question: Question, remaining: Steps) -> None:
        self.match = match
        self.question = question
        self.remaining = remaining
        self.chosen = match.chosen
        length = len(match.chosen)
        #: The first step that the answer does not contain, as a tuple; () if there is no such step.
        self.current = match.path[length : length + 1]
        #: The steps that follow ``current``.
        self.ahead = match.path[length + 1 :] + remaining

    def ask_about_known_item(self) -> FollowUp | None:
        """Ask about the last item on the path that has a known identifier."""
        path = self.match.path + self.remaining
        for length in range(len(self.chosen), 0, -1):
            prefix = self.chosen[:length]
            ibi = self.match.get_ibi(prefix)
            steps = _find_format(prefix) + path[length:]
            # metadata may be their own metadata: then the next question would be the same question
            is_same = steps == path and not self._item_forms().isdisjoint(ibi)
            if ibi and not is_same:
                return FollowUp(ibi, steps, length=length)
        return None

    def ask_about_next_edition(self) -> FollowUp | None:
        """Ask about the next edition, with the same steps."""
        path, next_edition = self.match.path, self.match.content.next_edition
        if path[:1] != (create_step(StepKind.LAST_EDITION),) or not next_edition:
            return None
        return FollowUp(next_edition, path + self.remaining)

    def ask_for_all_languages(self) -> FollowUp | None:
        """Ask only for the steps up to the open translation. The answer contains all languages."""
        return self._ask_same_item(self.chosen + self.current, self.ahead)

    def ask_for_original(self) -> FollowUp | None:
        """Ask for all steps except the last step, to find the Original first.

        The metadata of a Copy may have no identifier. Then these metadata do not lead to the
        metadata of the Original.
        """
        match = self.match
        entry = match.content.entries.get(self.chosen, NO_ENTRY)
        if not match.reader.requires_original or entry.url is None or len(self.chosen) < 2:
            return None
        return self._ask_same_item(self.chosen[:-1], self.chosen[-1:] + self.remaining)

    def ask_in_chosen_language(self) -> FollowUp | None:
        """Ask for all steps with the chosen language, if the last known step is a translation."""
        last = self.chosen[-1:]
        if not self.remaining or not last or last[0].kind is not StepKind.TRANSLATION:
            return None
        front = self.chosen[:-1] if last[0].is_any_translation else self.chosen
        return self._ask_same_item(front + self.remaining)

    def ask_without_step(self) -> FollowUp | None:
        """Ask for the steps without ``current``: the item itself is this translation or edition."""
        if ibi := self.match.get_ibi(self.chosen) if self.chosen else ():
            steps = _find_format(self.chosen) + self.ahead
            return FollowUp(ibi, steps, length=len(self.chosen))
        return self._ask_same_item(self.chosen + self.ahead)

    def ask_without_missing_translation(self) -> FollowUp | None:
        """Ask for the steps without the open translation, if the answer contains no translation."""
        if not self.current or not self.current[0].is_any_translation:
            return None
        if self.chosen and self.chosen not in self.match.content.entries:
            return None
        return self.ask_without_step()

    def ask_without_country(self) -> FollowUp | None:
        """Ask for the same steps, but for the language without the country."""
        step = create_step(StepKind.TRANSLATION, get_language_without_country(self.current[0]))
        return self._ask_same_item((*self.chosen, step, *self.ahead))

    def _ask_same_item(self, steps: Steps, remaining: Steps = ()) -> FollowUp:
        return FollowUp((self.question.ibi,), steps, remaining)

    def _item_forms(self) -> set[Identifier]:
        return {self.question.ibi, *self.match.get_ibi(())}


def _find_format(steps: Steps) -> Steps:
    """Return the steps that are metadata in a format; () if there is no such step."""
    return tuple(
        [step for step in steps if step.kind is StepKind.METADATA and step.parameter is not None]
    )
