"""The targets of relations: the last edition, the translations and the metadata of an item.

This module finds the targets. The URL list can contain a URL for each target.

Source: [R] 7.2, Table 7.5.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, TypeGuard

from flask_ibi_archive.core.protocol.catalogue import CatalogueItem, OwnMetadata
from flask_ibi_archive.core.protocol.relations import SHAPES, Step, StepKind, split_shapes
from flask_ibi_archive.core.protocol.states import State

#: The format that metadata in another Archive are assumed to have.
ASSUMED_FORMAT = "oai_dc"


class RelationTarget(NamedTuple):
    """The target of a relation.

    :param item: the target, or the item to which the metadata in ``own`` belong.
    :param own: the target if the target is metadata without an identifier; otherwise None.
    :param format: the format of the last ``.metadata`` step; None if the step has no format.
    :param described: the item from which this step leads to the target; None if unknown.
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
        """True if the Archive writes the format of the item from the Dublin Core of the item."""
        item, format = self.item, self.format
        return format is not None and item.state is not None and format not in item.formats

    @property
    def key(self) -> TargetKey:
        """A value that is the same for all RelationTarget objects of the same target.

        The key consists of the ids of objects, because the items of a host need not be hashable.
        Therefore the key is only valid while these objects exist.
        """
        return id(self.item), self.own is not None, self.format, id(self.described)


TargetKey = tuple[int, bool, "str | None", int]
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

    The Archive writes this Dublin Core in some formats. In an item of content type Metadata, the
    Dublin Core is the content of the item: the description of another item.
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


@lru_cache(maxsize=1024)
def create_step(kind: StepKind, parameter: str | None = None) -> Step:
    """Return the step of a kind with a parameter; frequent steps come from a cache."""
    return Step(kind, parameter)


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
    """Return the metadata of an item in free form and in each format."""
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
    return [
        (".metadata", free),
        *(
            (f".metadata({name})", RelationTarget(free.item, free.own, name, item))
            for name in formats
        ),
    ]


_NEXT_TARGETS = {"u": _find_last_edition, "t": _find_translations, "m": _find_metadata}


def list_next_items(item: CatalogueItem, letter: str) -> list[CatalogueItem]:
    """Return the items of this Archive to which a step of any parameter leads from an item.

    :param letter: the letter of the step.
    """
    targets = [target for _, target in _NEXT_TARGETS[letter](RelationTarget(item))]
    return [target.item for target in targets if target.own is None and target.item.state]


def list_relations(item: CatalogueItem, shapes: frozenset[str] = SHAPES) -> Targets:
    """Return the texts and the targets of all relations of an item.

    :param shapes: the shapes of the relations to follow, and all beginnings of these shapes.
    :returns: the relations. The text of that of the item to itself is "". Relations with the same
        target have the same RelationTarget object.
    """
    return _continue(RelationTarget(item), shapes, {}, {})


def _continue(
    target: RelationTarget,
    shapes: frozenset[str],
    targets: dict[TargetKey, RelationTarget],
    continued: dict[tuple[TargetKey, frozenset[str]], Targets],
) -> Targets:
    """Return the texts of the relations that begin at a target, and the targets to which they lead.

    :param target: the target of the steps before.
    :param shapes: the shapes of the relations that begin at the target.
    :param targets: all targets so far, each once.
    :param continued: the results so far. Many relations lead to the same target, and then continue
        in the same way.
    """
    key = target.key
    if (key, shapes) not in continued:
        target = targets.setdefault(key, target)
        relations = continued[key, shapes] = [("", target)] if target.has_format else []
        # if the state is None, only the identifier of the item is known
        for letter, rest in split_shapes(shapes) if target.item.state is not None else ():
            for step, following in _NEXT_TARGETS[letter](target):
                ends = _continue(following, rest, targets, continued)
                relations += [(step + name, end) for name, end in ends]
    return continued[key, shapes]


def follow_path(
    item: CatalogueItem, path: tuple[Step, ...], shapes: frozenset[str] = SHAPES
) -> list[Targets]:
    """Return the texts and the targets of the relations with the steps of a path.

    :param path: the steps to follow. A translation step without a language matches every
        translation.
    :param shapes: the shapes of the relations to follow.
    :returns: a list for each beginning of the path: the item itself, then the targets after one
        step, and so on.
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
    """Return all shapes of a set, and all beginnings of these shapes."""
    return frozenset(shape[:length] for shape in shapes for length in range(len(shape) + 1))
