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

The target of a relation is an item, or metadata without an identifier. The URL list can contain a
URL for each target.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, lru_cache
from typing import NamedTuple, TypeGuard

from flask_ibi_archive.core.protocol.catalogue_items import CatalogueItem, OwnMetadata, is_format
from flask_ibi_archive.core.protocol.languages import parse_language
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.errors import RefusedText

#: The parameter of a pattern that matches every parameter.
ANY = "*"

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
    """Group shapes by the first letter: return pairs of a letter and what may follow it.

    The pairs are in alphabetical order. For "", "u" and "um", the result is ``(("u", {"",
    "m"}),)``.
    """
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


@dataclass(frozen=True)
class Relation:
    """A sequence of steps in an order that the grammar allows.

    :param steps: the steps. The relation of an item to itself has no steps.
    :raises RefusedText: if the grammar does not allow the order of the steps.
    Source: [R] Table 7.5.
    """

    steps: tuple[Step, ...] = ()

    def __post_init__(self) -> None:
        if self.shape not in SHAPES:
            raise refuse_order([step.name for step in self.steps], self.shape)

    @cached_property
    def name(self) -> str:
        """The text of the relation in messages; "" if the relation has no steps."""
        return "".join([step.name for step in self.steps])

    @cached_property
    def shape(self) -> str:
        """The letters of the steps, such as "um"."""
        return "".join([step.letter for step in self.steps])


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
    def shape(self) -> str:
        """The shape of the relations that match the pattern, such as "um"."""
        return "".join([_LETTERS[kind] for kind, _ in self.steps])

    def matches(self, relation: Relation) -> bool:
        """Return True if the pattern matches a relation."""
        return self.shape == relation.shape and all(
            parameter == step.parameter or (parameter == ANY and step.parameter is not None)
            for (_, parameter), step in zip(self.steps, relation.steps, strict=True)
        )


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


def refuse_order(names: list[str], shape: str) -> RefusedText:
    """Return the error for steps in an order that the grammar does not allow.

    :param names: the texts of the steps for the message.
    :param shape: the letters of the steps, which :data:`SHAPES` does not contain.
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

    def __bool__(self) -> bool:
        """Return True if the list has a verb."""
        return self.file_list or bool(self.relation.steps)


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
    """Return the text of a verb list for a message, with one space between two verbs.

    The verbs are in the order of the steps, with GetFileList at the end.
    """
    names = [format_verb(step) for step in verbs.relation.steps]
    return " ".join([*names, GET_FILE_LIST] if verbs.file_list else names)


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


#: The format that metadata in another Archive are assumed to have.
ASSUMED_FORMAT = "oai_dc"


class RelationTarget(NamedTuple):
    """The target of a relation.

    :param item: the item that is the target; if ``own`` is the target, the item that it describes.
    :param own: the metadata that are the target, if they have no identifier; otherwise None.
    :param format: the format of the last ``.metadata`` step; None if that step has no format.
    :param described: the item whose metadata are the target; None if it is unknown.
    """

    item: CatalogueItem
    own: OwnMetadata | None = None
    format: str | None = None
    described: CatalogueItem | None = None

    @property
    def has_format(self) -> bool:
        """True if the target itself has the format; False if only translations may have it."""
        return self.format is None or self.own is not None or self.format in _formats_of(self.item)

    @property
    def is_written(self) -> bool:
        """True if the Archive converts stored Dublin Core to the metadata in this format."""
        item, format = self.item, self.format
        return format is not None and item.state is not None and format not in item.formats

    @property
    def key(self) -> tuple[int, bool, str | None, int]:
        """A value that is the same for all RelationTarget objects of the same target.

        The key consists of the ids of objects, because the items of a host need not be hashable.
        Therefore the key is only valid while these objects exist.
        """
        return id(self.item), self.own is not None, self.format, id(self.described)


#: A list of targets, each after the text of the step or steps that lead to the target.
Targets = list[tuple[str, RelationTarget]]


def _formats_of(item: CatalogueItem) -> tuple[str, ...]:
    """Return the formats of an item of content type Metadata."""
    if item.state is None:
        return (ASSUMED_FORMAT,)
    own = item.metadata() if item.shows_metadata else None
    return (*item.formats, *own.formats) if _is_here(own) else tuple(item.formats)


def _is_here(metadata: CatalogueItem | OwnMetadata | None) -> TypeGuard[OwnMetadata]:
    """Return whether metadata are Dublin Core that this Archive stores.

    The Archive can write such metadata in some formats. The Dublin Core of an item of content type
    Metadata describes another item.
    """
    return isinstance(metadata, OwnMetadata) and metadata.url is None


def _formats_of_translations(item: CatalogueItem) -> tuple[str, ...]:
    """Return the formats of an item of content type Metadata and of its translations."""
    if item.state is None:
        return _formats_of(item)
    members = [item, *item.translations().values()]
    return tuple(dict.fromkeys([format for member in members for format in _formats_of(member)]))


def _create_target(item: CatalogueItem | None, format: str | None = None) -> RelationTarget | None:
    """Return a target for an item; None if the item is unknown, deleted or not in the format."""
    if item is None or item.state == State.DELETED:
        return None
    if format is not None and format not in _formats_of(item):
        return None
    return RelationTarget(item, None, format)


def _find_last_edition(target: RelationTarget) -> Targets:
    """Return the last edition of an item. An item without next edition is its own last edition."""
    edition = _create_target(target.item.last_edition())
    return [] if edition is None else [(".lastedition", edition)]


def _find_translations(target: RelationTarget) -> Targets:
    """Return the translations of a target.

    A target without a language is also one of its own translations.
    """
    itself = (".translation", target)
    if target.own is not None:
        return [itself]
    item = target.item
    found = [itself] if item.language is None else []
    for language, member in item.translations().items():
        translation = target if member is item else _create_target(member, target.format)
        if translation is not None:
            found.append((f".translation({language})", translation))
    return found


def _find_metadata(target: RelationTarget) -> Targets:
    """Return the metadata of an item: in free form (without a format), and in each format."""
    item = target.item
    metadata = item.metadata()
    if item.content_type == "Metadata" and (metadata is None or _is_here(metadata)):
        metadata = item  # An item of content type Metadata is its own metadata.
    if isinstance(metadata, OwnMetadata):
        free, formats = RelationTarget(item, metadata), tuple(metadata.formats)
    elif found := _create_target(metadata):
        free, formats = found, _formats_of_translations(found.item)
    else:
        return []
    targets = [(".metadata", free)]
    for name in formats:
        targets.append((f".metadata({name})", RelationTarget(free.item, free.own, name, item)))
    return targets


_NEXT_TARGETS = {"u": _find_last_edition, "t": _find_translations, "m": _find_metadata}


def list_next_items(item: CatalogueItem, letter: str) -> list[CatalogueItem]:
    """Return the items of this Archive to which a step leads from an item, with any parameter.

    :param letter: the kind of the step: u, t or m.
    """
    targets = [target for _, target in _NEXT_TARGETS[letter](RelationTarget(item))]
    return [target.item for target in targets if target.own is None and target.item.state]


def list_relations(item: CatalogueItem, shapes: frozenset[str] = SHAPES) -> Targets:
    """Return all relations of an item: pairs of the text of the relation and its target.

    :param shapes: the shapes of the relations to follow, and all beginnings of these shapes.
    :returns: the pairs. The first pair is ("", the item itself).
    """
    return list(_continue(RelationTarget(item), shapes))


def _continue(
    target: RelationTarget, shapes: frozenset[str]
) -> Iterator[tuple[str, RelationTarget]]:
    """Follow relations from a target, and yield ``(text, target)`` for each of them.

    :param shapes: the shapes of the relations that begin at the target.
    """
    if target.has_format:
        yield "", target
    if target.item.state is None:  # only the identifier of the item is known
        return
    for letter, rest in split_shapes(shapes):
        for step, following in _NEXT_TARGETS[letter](target):
            for name, end in _continue(following, rest):
                yield step + name, end


def follow_path(
    item: CatalogueItem, path: tuple[Step, ...], shapes: frozenset[str] = SHAPES
) -> list[Targets]:
    """Follow the steps of a path from an item, and return what each step reaches.

    :param path: the steps to follow. A translation step without a language matches every
        translation.
    :param shapes: the shapes of the relations to follow.
    :returns: one list for no step, one after the first step, and so on. Each list contains pairs
        ``(text of the relation, target)``; it is empty if no target is reached.
    """
    reached: Targets = [("", RelationTarget(item))]
    levels, shape = [reached], ""
    for requested in path:
        shape += requested.letter
        if shape in shapes:
            reached = [
                (name + step, target)
                for name, start in reached
                if start.item.state is not None
                for step, target in _NEXT_TARGETS[requested.letter](start)
                if step == requested.name or requested.is_any_translation
            ]
        else:
            reached = []
        levels.append([(name, target) for name, target in reached if target.has_format])
    return levels


def step_matches(wanted: Step, step: Step) -> bool:
    """Return True if a requested step matches an actual step.

    A requested translation step without a language matches every translation step.
    """
    return wanted == step or (wanted.is_any_translation and step.kind is StepKind.TRANSLATION)


def add_prefixes(shapes: set[str]) -> frozenset[str]:
    """Return some shapes and all beginnings of these shapes: "", "u" and "um" for "um"."""
    return frozenset(shape[:length] for shape in shapes for length in range(len(shape) + 1))
