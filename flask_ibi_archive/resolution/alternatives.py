"""What an item has instead of what a persistent URL asks for: one more round of questions."""

from __future__ import annotations

from dataclasses import replace

from flask_ibi_archive.protocol.hosts import NO_INNER_HOSTS, InnerHosts
from flask_ibi_archive.protocol.relation_targets import create_step
from flask_ibi_archive.protocol.relations import Relation, StepKind
from flask_ibi_archive.protocol.verbs import VerbList
from flask_ibi_archive.resolution.answer import Answer, Question, parse_answer
from flask_ibi_archive.resolution.outcome import Alert
from flask_ibi_archive.resolution.persistent_url import PersistentUrl

_TRANSLATION = create_step(StepKind.TRANSLATION)

#: Every Archive answers these, whatever formats and languages an item has.
_VERBS = (
    VerbList(Relation((_TRANSLATION,))),
    VerbList(Relation((create_step(StepKind.METADATA),))),
    VerbList(Relation((create_step(StepKind.METADATA, "oai_dc"),))),
    VerbList(file_list=True),
)


class AlternativesSearch:
    """Asks what the item of an alert has; it is used like an ``Analysis`` of a single round.

    :ivar questions: to be asked of the Archives that know the item.
    """

    waits_for_all = False

    def __init__(self, alert: Alert, inner_hosts: InnerHosts = NO_INNER_HOSTS) -> None:
        self.alert = alert
        self.questions = tuple([Question(alert.ibi, verbs) for verbs in _VERBS if alert.ibi])
        self._inner_hosts = inner_hosts
        self._found: set[PersistentUrl] = set()

    def add_answer(self, answer: Answer) -> None:
        """Store each alternative of which an answer gives the URL or the identifier."""
        verbs = answer.question.verbs
        for steps in parse_answer(answer, self._inner_hosts).entries:
            # a translation without a language is the item itself
            is_other = steps and steps[-1] != _TRANSLATION
            if len(steps) == len(verbs.relation.steps) and (is_other or verbs.file_list):
                found = VerbList(Relation(steps), verbs.file_list)
                self._found.add(PersistentUrl(answer.question.ibi, found))

    def has_follow_up(self) -> bool:
        """Return whether the other Archives need not be waited for long."""
        return bool(self._found)

    def finish_round(self, silent: int = 0, asked: int = 0) -> Alert:
        """Return the alert with the alternatives that were found."""
        return replace(self.alert, found=tuple(sorted(self._found, key=_order)))


def _order(url: PersistentUrl) -> tuple[bool, str]:
    return url.verbs.file_list, url.verbs.relation.name
