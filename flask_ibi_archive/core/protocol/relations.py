"""Relations such as ``.lastedition.metadata(oai_dc)``, and the verb lists of requests.

A relation is a sequence of steps. A step leads to the last edition, to a translation or to the
metadata. In an answer, the name of a relation is the end of the names of pairs, as in
``url.lastedition``. Each step has a letter: u, t or m. The shape of a relation consists of the
letters of its steps, such as "um".

    relation = ([u [t]] | [t [u]]) [m [t]]
    u = ".lastedition"
    t = ".translation" ["(" xx ["-" YY] ")"]
    m = ".metadata" ["(" format ")"]

Source: [R] 7.2, Table 7.5; 7.2, Example 7.5.

The verb list in a persistent URL or in a urlRequest requests a related item instead of the item
itself. Each verb is a step of a relation, except GetFileList. The verb GetFileList requests a list
of files.

Source: [R] 6.1, Tables 6.4 and 6.5.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache

from flask_ibi_archive.core.protocol.languages import parse_language
from flask_ibi_archive.errors import RefusedText

#: The parameter of a pattern that matches every parameter.
ANY = "*"

_FORMAT = re.compile("[A-Za-z0-9_-]+")
_STEP = re.compile(r"\.([a-z]+)(?:\(([^()]*)\))?")


class StepKind(str, Enum):
    """The kinds of steps. The values are the names in messages."""

    LAST_EDITION = "lastedition"
    TRANSLATION = "translation"
    METADATA = "metadata"


_KINDS = {kind.value: kind for kind in StepKind}
_LETTERS = {StepKind.LAST_EDITION: "u", StepKind.TRANSLATION: "t", StepKind.METADATA: "m"}

#: The shapes that the grammar allows. The beginning of an allowed shape is also allowed.
SHAPES = frozenset(head + tail for head in ("", "u", "t", "ut", "tu") for tail in ("", "m", "mt"))


@lru_cache(maxsize=256)
def split_shapes(shapes: frozenset[str]) -> tuple[tuple[str, frozenset[str]], ...]:
    """Return each first letter of the shapes, with the rests of the shapes that begin with it."""
    letters = sorted({shape[0] for shape in shapes if shape})
    return tuple(
        (letter, frozenset([shape[1:] for shape in shapes if shape[:1] == letter]))
        for letter in letters
    )


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a relation.

    :param kind: the kind of the step.
    :param parameter: the language of a translation (``xx`` or ``xx-YY``), or the format of metadata
        (letters, digits, "_" and "-"). Upper and lower case are different. None if the step has no
        parameter. A last edition never has a parameter.
    :raises RefusedText: if a step of this kind cannot have this parameter.
    Source: [R] Table 7.5.
    """

    kind: StepKind
    parameter: str | None = None

    def __post_init__(self) -> None:
        if self.parameter is not None:
            check_parameter(self.kind, self.parameter)

    @property
    def letter(self) -> str:
        """The letter of the step: u, t or m."""
        return _LETTERS[self.kind]

    @property
    def name(self) -> str:
        """The text of the step in messages, such as ``.translation(pt-BR)``."""
        return _format_step(self.kind, self.parameter)

    @property
    def is_any_translation(self) -> bool:
        """True for a translation without a language. In a request, it means every translation."""
        return self.kind is StepKind.TRANSLATION and self.parameter is None


@dataclass(frozen=True, slots=True, eq=False)
class Relation:
    """A sequence of steps in an order that the grammar allows.

    :param steps: the steps. The relation of an item to itself has no steps.
    :ivar name: the text of the relation in messages; "" if the relation has no steps.
    :ivar shape: the letters of the steps, such as "um".
    :raises RefusedText: if the grammar does not allow the order of the steps.
    Source: [R] Table 7.5.
    """

    steps: tuple[Step, ...] = ()
    name: str = field(init=False, repr=False)
    shape: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        shape = "".join([_LETTERS[step.kind] for step in self.steps])
        if shape not in SHAPES:
            raise refuse_order([step.name for step in self.steps], shape)
        object.__setattr__(self, "name", "".join([step.name for step in self.steps]))
        object.__setattr__(self, "shape", shape)

    def __eq__(self, other: object) -> bool:
        return self.name == other.name if isinstance(other, Relation) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.name)

    def __bool__(self) -> bool:
        """Return True if the relation has a step."""
        return bool(self.steps)


#: The relation of an item to itself.
EMPTY = Relation()


@dataclass(frozen=True, slots=True)
class RelationPattern:
    """A pattern of relations.

    Use :func:`parse_relation_pattern` to create a pattern.

    :param steps: the kind and the parameter of each step. The parameter ``"*"`` matches every
        parameter, but does not match a step without a parameter.
    """

    steps: tuple[tuple[StepKind, str | None], ...]

    @property
    def name(self) -> str:
        """The text of the pattern in a setting, such as ``.translation(*)``."""
        return "".join([_format_step(kind, parameter) for kind, parameter in self.steps])

    @property
    def shape(self) -> str:
        """The shape of the relations that match the pattern, such as "um"."""
        return "".join([_LETTERS[kind] for kind, _ in self.steps])

    def matches(self, relation: Relation) -> bool:
        """Return True if the pattern matches a relation."""
        if len(self.steps) != len(relation.steps):
            return False
        for (kind, parameter), step in zip(self.steps, relation.steps, strict=True):
            is_any = parameter == ANY and step.parameter is not None
            if kind is not step.kind or not (is_any or parameter == step.parameter):
                return False
        return True


@lru_cache(maxsize=256)
def parse_relation(text: str) -> Relation:
    """Parse a relation.

    :param text: a text such as ``.lastedition.metadata(oai_dc)``. "" is the relation of an item to
        itself.
    :raises ValueError: if the text is not a relation. The message shows the wrong step.
    Source: [R] Table 7.5.
    """
    return Relation(tuple([Step(kind, parameter) for kind, parameter in _split_steps(text)]))


def parse_relation_pattern(text: str) -> RelationPattern:
    """Parse a pattern of relations: a relation in which ``(*)`` matches every parameter.

    The setting ``IBI_RELATIONS`` contains such patterns.

    :param text: a text such as ``.metadata(*)``. This pattern matches ``.metadata(oai_dc)``, but
        does not match ``.metadata``. "" matches the relation of an item to itself.
    :raises ValueError: if the text is not a pattern. The message shows the wrong step.
    Source: [R] 7.2 (an Archive answers only some relations).
    """
    steps = tuple(_split_steps(text))
    for kind, parameter in steps:
        if parameter is not None and (parameter != ANY or kind is StepKind.LAST_EDITION):
            check_parameter(kind, parameter)
    pattern = RelationPattern(steps)
    if pattern.shape not in SHAPES:
        names = [_format_step(kind, parameter) for kind, parameter in steps]
        raise refuse_order(names, pattern.shape)
    return pattern


def check_parameter(kind: StepKind, parameter: str) -> None:
    """Check that a step of a kind can have a parameter.

    :raises RefusedText: if a step of this kind cannot have this parameter.
    Source: [R] Table 7.5.
    """
    if kind is StepKind.TRANSLATION:
        parse_language(parameter)
    elif kind is StepKind.LAST_EDITION:
        raise RefusedText("last_edition_parameter", parameter=parameter[:80])
    elif not is_format(parameter):
        raise RefusedText("not_a_format", text=parameter[:80])


def is_format(text: str) -> bool:
    """Return True if a text has the form of a metadata format: letters, digits, "_" and "-"."""
    return _FORMAT.fullmatch(text) is not None


def refuse_order(names: list[str], shape: str) -> RefusedText:
    """Return the error for steps in an order that the grammar does not allow.

    :param names: the texts of the steps for the message.
    :param shape: the letters of the steps. :data:`SHAPES` does not contain this shape.
    """
    wrong = next(length for length in range(len(shape)) if shape[: length + 1] not in SHAPES)
    return RefusedText("wrong_order", step=names[wrong], previous=names[wrong - 1])


def _format_step(kind: StepKind, parameter: str | None) -> str:
    return f".{kind.value}" if parameter is None else f".{kind.value}({parameter})"


def _split_steps(text: str) -> Iterator[tuple[StepKind, str | None]]:
    position = 0
    while position < len(text):
        found = _STEP.match(text, position)
        kind = _KINDS.get(found[1]) if found is not None else None
        if found is None or kind is None:
            raise ValueError(
                f"{text[position : position + 80]!a} is not a step of a relation; a step is "
                ".lastedition, .translation, .translation(xx-YY), .metadata or .metadata(format)"
            )
        yield kind, found[2]
        position = found.end()


GET_FILE_LIST = "GetFileList"
_VERBS = {
    StepKind.TRANSLATION: "GetTranslation",
    StepKind.LAST_EDITION: "GetLastEdition",
    StepKind.METADATA: "GetMetadata",
}
_VERB_KINDS = {verb: kind for kind, verb in _VERBS.items()}
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
            raise refuse_order([format_verb(verb_step) for verb_step in (*steps, step)], longer)
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
    kind = _VERB_KINDS.get(found[1]) if found is not None else None
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
