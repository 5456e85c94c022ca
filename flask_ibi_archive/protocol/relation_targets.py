"""The targets of relations: the last edition, the translations and the metadata of an item.

This module finds the targets. The URL list can contain a URL for each target.

Source: [R] 7.2, Table 7.5.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from flask_ibi_archive.protocol.catalogue import CatalogueItem, OwnMetadata
from flask_ibi_archive.protocol.relations import SHAPES, Step, StepKind

#: The format that metadata in another Archive are assumed to have.
ASSUMED_FORMAT = "oai_dc"

#: The letters of the steps that may follow each shape.
NEXT_LETTERS = {
    shape: "".join(letter for letter in "utm" if shape + letter in SHAPES) for shape in SHAPES
}


@dataclass(frozen=True, slots=True)
class RelationTarget:
    """The target of a relation.

    :param item: the target, or the item to which the metadata in ``own`` belong.
    :param own: the target if the target is metadata without an identifier; otherwise None.
    :param format: the format of the last ``.metadata`` step; None if the step has no format.
    """

    item: CatalogueItem
    own: OwnMetadata | None = None
    format: str | None = None

    @property
    def has_format(self) -> bool:
        """True if the target itself has the format; False if only translations may have it."""
        return self.format is None or self.own is not None or self.format in _formats_of(self.item)


#: A list of targets. The step before a target leads from the previous target to the target.
Targets = list[tuple[Step, RelationTarget]]


def _formats_of(item: CatalogueItem) -> tuple[str, ...]:
    """Return the formats of an item of content type Metadata."""
    return (ASSUMED_FORMAT,) if item.state is None else tuple(item.formats)


def _formats_of_translations(item: CatalogueItem) -> tuple[str, ...]:
    """Return the formats of an item of content type Metadata and of its translations."""
    if item.state is None:
        return _formats_of(item)
    members = [item, *item.translations().values()]
    return tuple(dict.fromkeys([format for one in members for format in _formats_of(one)]))


def _create_target(item: CatalogueItem | None, format: str | None = None) -> RelationTarget | None:
    """Return a target for an item; None if the item is unknown, deleted or not in the format."""
    if item is None or item.state == "Deleted":
        return None
    if format is not None and format not in _formats_of(item):
        return None
    return RelationTarget(item, None, format)


@lru_cache(maxsize=1024)
def create_step(kind: StepKind, parameter: str | None = None) -> Step:
    """Return a step.

    A cache contains the frequent steps. Therefore these steps are not created again and again.
    """
    return Step(kind, parameter)


def _find_last_edition(target: RelationTarget) -> Targets:
    """Return the last edition of an item. An item without next edition is its own last edition."""
    edition = _create_target(target.item.last_edition())
    return [] if edition is None else [(create_step(StepKind.LAST_EDITION), edition)]


def _find_translations(target: RelationTarget) -> Targets:
    """Return the translations of a target.

    A target without a language is also one of its own translations.
    """
    itself = (create_step(StepKind.TRANSLATION), target)
    if target.own is not None:
        return [itself]
    item = target.item
    found = [itself] if item.language is None else []
    for language, member in item.translations().items():
        translation = _create_target(member, target.format)
        if translation is not None:
            found.append((create_step(StepKind.TRANSLATION, language), translation))
    return found


def _find_metadata(target: RelationTarget) -> Targets:
    """Return the metadata of an item in free form and in each format."""
    item = target.item
    metadata = item.metadata()
    if metadata is None and item.content_type == "Metadata":
        metadata = item  # An item of content type Metadata is its own metadata.
    if isinstance(metadata, OwnMetadata):
        free, formats = RelationTarget(item, metadata), tuple(metadata.formats)
    elif found := _create_target(metadata):
        free, formats = found, _formats_of_translations(found.item)
    else:
        return []
    return [(create_step(StepKind.METADATA), free)] + [
        (create_step(StepKind.METADATA, name), RelationTarget(free.item, free.own, name))
        for name in formats
    ]


_NEXT_TARGETS = {"u": _find_last_edition, "t": _find_translations, "m": _find_metadata}


def follow_relations(
    item: CatalogueItem, path: tuple[Step, ...] | None = None, shapes: frozenset[str] = SHAPES
) -> Iterator[tuple[tuple[Step, ...], RelationTarget]]:
    """Yield the steps and the target of each relation of an item.

    The first target is the item itself, without steps.

    :param path: the steps to follow; None for all relations. A translation step without a language
        matches every translation.
    :param shapes: the shapes of the relations to follow.
    """
    waiting: list[tuple[tuple[Step, ...], str, RelationTarget]] = [((), "", RelationTarget(item))]
    while waiting:
        steps, shape, target = waiting.pop()
        if target.has_format:
            yield steps, target
        if target.item.state is None:  # Only the identifier of this item is known.
            continue
        if path is None:
            wanted, letters = None, NEXT_LETTERS[shape]
        elif len(steps) < len(path):
            wanted = path[len(steps)]
            letters = wanted.letter
        else:
            continue
        for letter in letters:
            if shape + letter not in shapes:
                continue
            for step, following in _NEXT_TARGETS[letter](target):
                if wanted is None or step_matches(wanted, step):
                    waiting.append(((*steps, step), shape + letter, following))


def step_matches(wanted: Step, step: Step) -> bool:
    """Return True if a requested step matches an actual step.

    A requested translation step without a language matches every translation step.
    """
    return wanted == step or (
        wanted.kind is StepKind.TRANSLATION
        and wanted.parameter is None
        and step.kind is StepKind.TRANSLATION
    )


def add_prefixes(shapes: set[str]) -> frozenset[str]:
    """Return all shapes of a set, and all beginnings of these shapes."""
    return frozenset(shape[:length] for shape in shapes for length in range(len(shape) + 1))
