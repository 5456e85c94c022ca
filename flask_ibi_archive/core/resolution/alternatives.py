"""The search for other parts of an item, after an alert that the requested part is missing.

Source: [R] 6.2.
"""

from __future__ import annotations

from dataclasses import replace

from flask_ibi_archive.core.protocol.hosts import NO_INNER_HOSTS, InnerHosts
from flask_ibi_archive.core.protocol.relation_targets import create_step
from flask_ibi_archive.core.protocol.relations import Relation, StepKind
from flask_ibi_archive.core.protocol.verbs import VerbList
from flask_ibi_archive.core.resolution.answer import Answer, Question, parse_answer
from flask_ibi_archive.core.resolution.outcome import Alert
from flask_ibi_archive.core.resolution.persistent_url import PersistentUrl

_TRANSLATION = create_step(StepKind.TRANSLATION)

#: The requests for parts of an item. They are independent of the formats and languages of the item.
_ALTERNATIVES = (
    VerbList(Relation((_TRANSLATION,))),
    VerbList(Relation((create_step(StepKind.METADATA),))),
    VerbList(Relation((create_step(StepKind.METADATA, "oai_dc"),))),
    VerbList(file_list=True),
)


class AlternativesSearch:
    """The search for other parts of an item, after an alert that a part is missing.

    This class has the same public methods as :class:`.choice.Analysis`. The search has only one
    round.

    :param alert: the alert about the missing part.
    :param inner_hosts: the internal hosts to which the reader may be redirected.
    :ivar questions: the questions about other parts of the item.
    """

    waits_for_all = False

    def __init__(self, alert: Alert, inner_hosts: InnerHosts = NO_INNER_HOSTS) -> None:
        self.alert = alert
        self.questions = tuple([Question(alert.ibi, verbs) for verbs in _ALTERNATIVES if alert.ibi])
        self._inner_hosts = inner_hosts
        self._found: set[PersistentUrl] = set()

    def add_answer(self, answer: Answer) -> None:
        """Collect the parts for which an answer contains a URL or an identifier.

        The list of files has no identifier of its own. Removed items are left out.
        """
        verbs = answer.question.verbs
        for steps, entry in parse_answer(answer, self._inner_hosts).entries.items():
            # a translation without a language means the item itself
            is_other = steps and steps[-1] != _TRANSLATION
            is_list = verbs.file_list and entry.url is not None
            is_removed = not self.alert.removed.isdisjoint(entry.ibi)
            if len(steps) != len(verbs.relation.steps) or is_removed:
                continue
            if is_other or is_list:
                found = VerbList(Relation(steps), verbs.file_list)
                self._found.add(PersistentUrl(answer.question.ibi, found))

    def has_follow_up(self) -> bool:
        """Return whether a part was found.

        If so, the caller waits less time for the other Archives.
        """
        return bool(self._found)

    def needs_only_follow_up(self) -> bool:
        """Return False, because the parts of all sources are needed."""
        return False

    def finish_round(self, silent: int = 0, asked: int = 0) -> Alert:
        """Return the alert with the parts that were found as alternatives."""
        alternatives = sorted(self._found, key=_order_alternatives)
        return replace(self.alert, alternatives=tuple(alternatives))


def _order_alternatives(url: PersistentUrl) -> tuple[bool, str]:
    return url.verbs.file_list, url.verbs.relation.name
