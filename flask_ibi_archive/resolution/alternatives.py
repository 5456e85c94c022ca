"""What there is of an item that does not have what a persistent URL asks for: one more round of
questions.
"""

from __future__ import annotations

from dataclasses import replace

from flask_ibi_archive.protocol.hosts import NO_INNER_HOSTS, InnerHosts
from flask_ibi_archive.protocol.relation_targets import step_to
from flask_ibi_archive.protocol.relations import Relation, StepKind
from flask_ibi_archive.protocol.verbs import VerbList
from flask_ibi_archive.resolution.answer import Answer, Question, read_offers
from flask_ibi_archive.resolution.outcome import Alert
from flask_ibi_archive.resolution.persistent_url import PersistentUrl

#: Every Archive answers these, whatever formats and languages it has.
_ASKED = (
    VerbList(Relation((step_to(StepKind.TRANSLATION),))),
    VerbList(Relation((step_to(StepKind.METADATA),))),
    VerbList(Relation((step_to(StepKind.METADATA, "oai_dc"),))),
    VerbList(file_list=True),
)


class Survey:
    """Asks what there is of the item that an alert names; used as an ``Analysis`` is.

    :ivar questions: to be asked of the Archives that know the item.
    """

    waits_for_all = False

    def __init__(self, alert: Alert, inner_hosts: InnerHosts = NO_INNER_HOSTS) -> None:
        self.alert = alert
        self.questions = tuple([Question(alert.ibi, verbs) for verbs in _ASKED if alert.ibi])
        self._inner_hosts = inner_hosts
        self._found: set[PersistentUrl] = set()

    def take(self, answer: Answer) -> None:
        """Store what an answer offers: by a URL, or by an identifier that can be asked on."""
        verbs = answer.question.verbs
        for steps in read_offers(answer, self._inner_hosts).named:
            # a translation without a language is the item itself
            leads_away = steps and steps[-1] != step_to(StepKind.TRANSLATION)
            if len(steps) == len(verbs.relation.steps) and (leads_away or verbs.file_list):
                found = VerbList(Relation(steps), verbs.file_list)
                self._found.add(PersistentUrl(answer.question.ibi, found))

    def can_ask_on(self) -> bool:
        """Return whether the other Archives need not be waited for long."""
        return bool(self._found)

    def conclude(self, silent: int = 0, asked: int = 0) -> Alert:
        """Return the alert with what was found."""
        return replace(self.alert, found=tuple(sorted(self._found, key=_order)))


def _order(url: PersistentUrl) -> tuple[bool, str]:
    return url.verbs.file_list, url.verbs.relation.name
