"""The targets of relations: finds the last edition, the translations and the metadata of an item.

The URL list contains a URL for each target that this module finds.

Source: [R] 7.2, Table 7.5.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from flask_ibi_archive.protocol.catalogue import CatalogueItem, OwnMetadata
from flask_ibi_archive.protocol.relations import SHAPES, Step, StepKind

#: The assumed format of metadata that are in another Archive.
ASSUMED_FORMAT = "oai_dc"

#: The letters of the steps that may follow each shape.
NEXT_LETTERS = {
    shape: "".join(letter for letter in "utm" if shape + letter in SHAPES) for shape in SHAPES
}


@dataclass(frozen=True, slots=True)
class RelationTarget:
    """The target of a relation.

    :param item: the item.
    :param own: metadata of ``item`` without an identifier, if they are the target instead of
        ``item``.
    :param format: the format of the last ``.metadata`` step, if the step has a format.
    """

    item: CatalogueItem
    own: OwnMetadata | None = None
    format: str | None = None

    @property
    def has_format(self) -> bool:
        """Whether the target itself has the format; if not, its translations may have it."""
        return self.format is None or self.own is not None or self.format in _formats_of(self.item)


#: Each target with the step from the previous target.
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
    """Return an item as target; None if the item is unknown, deleted or not in the format."""
    if item is None or item.state == "Deleted":
        return None
    if format is not None and format not in _formats_of(item):
        return None
    return RelationTarget(item, None, format)


@lru_cache(maxsize=1024)
def create_step(kind: StepKind, parameter: str | None = None) -> Step:
    """Return a step; a cache avoids creating the few frequent steps again and again."""
    return Step(kind, parameter)


def _last_edition(target: RelationTarget) -> Targets:
    """Return the last edition of an item: the item itself if it has no next edition."""
    edition = _create_target(target.item.last_edition())
    return [] if edition is None else [(create_step(StepKind.LAST_EDITION), edition)]


def _translations(target: RelationTarget) -> Targets:
    """Return the translations of a target; the target itself if it states no language."""
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


def _metadata(target: RelationTarget) -> Targets:
    """Return the metadata of an item in free form and in each format."""
    item = target.item
    metadata = item.metadata()
    if metadata is None and item.content_type == "Metadata":
        metadata = item  # such an item is its own metadata
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


_NEXT_TARGETS = {"u": _last_edition, "t": _translations, "m": _metadata}


def follow_relations(
    item: CatalogueItem, path: tuple[Step, ...] | None = None, shapes: frozenset[str] = SHAPES
) -> Iterator[tuple[tuple[Step, ...], RelationTarget]]:
    """Yield the steps and the target of each relation of an item, first the item itself.

    :param path: follow these steps only. A translation without a language matches every
        translation.
    :param shapes: follow relations of these shapes only.
    """
    waiting: list[tuple[tuple[Step, ...], str, RelationTarget]] = [((), "", RelationTarget(item))]
    while waiting:
        steps, shape, target = waiting.pop()
        if target.has_format:
            yield steps, target
        if target.item.state is None:  # only its identifier is known
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
                if wanted is None or covers(wanted, step):
                    waiting.append(((*steps, step), shape + letter, following))


def covers(wanted: Step, step: Step) -> bool:
    """Return whether a requested step matches an actual step.

    A requested translation without a language matches every translation.
    """
    return wanted == step or (
        wanted.kind is StepKind.TRANSLATION
        and wanted.parameter is None
        and step.kind is StepKind.TRANSLATION
    )


def add_prefixes(shapes: set[str]) -> frozenset[str]:
    """Return shapes and all beginnings of these shapes."""
    return frozenset(shape[:length] for shape in shapes for length in range(len(shape) + 1))
