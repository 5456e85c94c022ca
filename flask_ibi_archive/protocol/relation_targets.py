"""The targets of relations: the items that last editions, translations and metadata lead to.

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
    """What a relation leads to.

    :param item: the item.
    :param own: if the target is metadata of the item that are no item: these metadata.
    :param format: the format of the metadata that was asked for.
    """

    item: CatalogueItem
    own: OwnMetadata | None = None
    format: str | None = None

    @property
    def has_format(self) -> bool:
        """Whether the target has the format; if not, only a translation of it may have it."""
        return self.format is None or self.own is not None or self.format in _formats_of(self.item)


#: Targets with the steps that lead to them.
Targets = list[tuple[Step, RelationTarget]]


def _formats_of(item: CatalogueItem) -> tuple[str, ...]:
    """Return the formats of metadata that are an identified item."""
    return (ASSUMED_FORMAT,) if item.state is None else tuple(item.formats)


def _formats_of_translations(item: CatalogueItem) -> tuple[str, ...]:
    """Return the formats of metadata that are an item, and of their translations."""
    if item.state is None:
        return _formats_of(item)
    members = [item, *item.translations().values()]
    return tuple(dict.fromkeys([format for one in members for format in _formats_of(one)]))


def _create_target(item: CatalogueItem | None, format: str | None = None) -> RelationTarget | None:
    """Return an item as target, None if it is unknown or deleted or does not have the format."""
    if item is None or item.state == "Deleted":
        return None
    if format is not None and format not in _formats_of(item):
        return None
    return RelationTarget(item, None, format)


@lru_cache(maxsize=1024)
def create_step(kind: StepKind, parameter: str | None = None) -> Step:
    """Return a step. The few steps in use are cached, since each is created very often."""
    return Step(kind, parameter)


def _last_edition(target: RelationTarget) -> Targets:
    """Return the last edition of an item: the item itself if it has no next edition."""
    edition = _create_target(target.item.last_edition())
    return [] if edition is None else [(create_step(StepKind.LAST_EDITION), edition)]


def _translations(target: RelationTarget) -> Targets:
    """Return the translations of a target by language, and itself if it states no language."""
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
        metadata = item  # metadata are their own metadata
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
    """Yield every relation of an item that has a target, with the target; the empty one first.

    :param path: follow these steps only; a translation without a language means every translation.
    :param shapes: follow relations of these shapes only (letters such as "um").
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
    """Return whether a wanted step includes another one.

    A translation without a language includes every translation.
    """
    return wanted == step or (
        wanted.kind is StepKind.TRANSLATION
        and wanted.parameter is None
        and step.kind is StepKind.TRANSLATION
    )


def add_prefixes(shapes: set[str]) -> frozenset[str]:
    """Return shapes together with all shapes that they begin with."""
    return frozenset(shape[:length] for shape in shapes for length in range(len(shape) + 1))
