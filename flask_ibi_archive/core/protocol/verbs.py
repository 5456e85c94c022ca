"""Verb lists such as ``GetLastEdition GetMetadata(oai_dc)``: parsing and formatting.

The verb list in a persistent URL or in a urlRequest requests a related item instead of the item
itself. Each verb is a step of a relation, except GetFileList. The verb GetFileList requests a list
of files.

Source: [R] 6.1, Tables 6.4 and 6.5.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from flask_ibi_archive.core.protocol.relations import (
    EMPTY,
    SHAPES,
    Relation,
    Step,
    StepKind,
    refuse_order,
)
from flask_ibi_archive.errors import RefusedText

GET_FILE_LIST = "GetFileList"
_VERBS = {
    StepKind.TRANSLATION: "GetTranslation",
    StepKind.LAST_EDITION: "GetLastEdition",
    StepKind.METADATA: "GetMetadata",
}
_KINDS = {verb: kind for kind, verb in _VERBS.items()}
_VERB = re.compile(r"([A-Za-z]+)(?:\(([^()]*)\))?")


@dataclass(frozen=True, slots=True)
class VerbList:
    """The content of a verb list.

    :param relation: the relation whose steps are the verbs, in the same order.
    :param file_list: True if the list contains GetFileList, the request for a list of files.
    Source: [R] Tables 6.4, 6.5 and 7.5.
    """

    relation: Relation = EMPTY
    file_list: bool = False

    @property
    def verbs(self) -> tuple[str, ...]:
        """The verbs in the order of the steps, with GetFileList at the end."""
        verbs = [format_verb(step) for step in self.relation.steps]
        return (*verbs, GET_FILE_LIST) if self.file_list else tuple(verbs)

    def __bool__(self) -> bool:
        """Return True if the list has a verb."""
        return self.file_list or bool(self.relation)


#: The empty verb list. It requests the item itself.
NO_VERBS = VerbList()


@lru_cache(maxsize=256)
def parse_verb_list(text: str) -> VerbList:
    """Parse a verb list.

    A repeated verb counts once, except where the grammar of relations allows it twice, as in
    ``GetTranslation GetMetadata GetTranslation``.

    :param text: verbs separated by spaces, or by "+" as in a persistent URL. Upper and lower case
        are different. GetFileList may be at any position. "" is the empty list.
    :raises RefusedText: if a verb is unknown, if a parameter is wrong, or if the grammar of
        relations does not allow the order of the verbs.
    Source: [R] 6.1, Tables 6.4 and 6.5; the order: Table 7.5; repeated verbs: [R] 6.2.
    """
    verbs = [verb for verb in text.replace("+", " ").split(" ") if verb]
    steps: list[Step] = []
    shape = ""
    for step in (parse_verb(verb) for verb in verbs if verb != GET_FILE_LIST):
        longer = shape + step.letter
        if longer in SHAPES:
            steps.append(step)
            shape = longer
        elif step not in steps:
            raise refuse_order([format_verb(one) for one in (*steps, step)], longer)
    return VerbList(Relation(tuple(steps)), GET_FILE_LIST in verbs)


def format_verb_list(verbs: VerbList) -> str:
    """Return the text of a verb list for a message, with one space between two verbs."""
    return " ".join(verbs.verbs)


def parse_verb(text: str) -> Step:
    """Return the step that a verb represents.

    :param text: a verb other than GetFileList.
    :raises RefusedText: if the verb is unknown, or if the parameter of the verb is wrong.
    Source: [R] Tables 6.4 and 6.5.
    """
    found = _VERB.fullmatch(text)
    kind = _KINDS.get(found[1]) if found is not None else None
    if found is None or kind is None:
        raise RefusedText("unknown_verb", text=text[:80])
    try:
        return Step(kind, found[2])
    except RefusedText as error:
        raise RefusedText("in_parameter", name=found[1], problem=error.reason) from error


def format_verb(step: Step) -> str:
    """Return the verb that represents a step, such as ``GetTranslation(pt-BR)``."""
    verb = _VERBS[step.kind]
    return verb if step.parameter is None else f"{verb}({step.parameter})"
