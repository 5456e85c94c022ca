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


def _last_edition(target: RelationTarget) -> RelationTarget | None:
    """Return the last edition of an item: the item itself if it has no next edition."""
    if target.item.state is None:
        return None
    return _create_target(target.item.last_edition())


def _translations(target: RelationTarget) -> list[tuple[str | None, RelationTarget]]:
    """Return the translations of an item with their languages; None: no language is stated."""
    if target.own is not None:
        return [(None, target)]
    item = target.item
    if item.state is None:
        return []
    found: list[tuple[str | None, RelationTarget]] = []
    if item.language is None:
        found.append((None, target))
    for language, member in item.translations().items():
        translation = _create_target(member, target.format)
        if translation is not None:
            found.append((language, translation))
    return found


def _metadata(target: RelationTarget) -> list[tuple[str | None, RelationTarget]]:
    """Return the metadata of an item in free form (None) and in each format."""
    item = target.item
    if item.state is None:
        return []
    found = item.metadata()
    if found is None:
        if item.content_type != "Metadata":
            return []
        found = item  # metadata are their own metadata
    if isinstance(found, OwnMetadata):
        free: RelationTarget | None = RelationTarget(item, found)
        formats = tuple(found.formats)
    else:
        free = _create_target(found)
        formats = _formats_of_translations(found)
    if free is None:
        return []
    in_formats = [(format, RelationTarget(free.item, free.own, format)) for format in formats]
    return [(None, free), *in_formats]


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


def _next_targets(target: RelationTarget, letters: str) -> list[tuple[Step, RelationTarget]]:
    """Return the targets that are one step away, by steps of the given kinds (u, t, m)."""
    found: list[tuple[Step, RelationTarget]] = []
    if "u" in letters:
        edition = _last_edition(target)
        if edition is not None:
            found.append((create_step(StepKind.LAST_EDITION), edition))
    if "t" in letters:
        found += [
            (create_step(StepKind.TRANSLATION, language), translation)
            for language, translation in _translations(target)
        ]
    if "m" in letters:
        found += [
            (create_step(StepKind.METADATA, format), metadata)
            for format, metadata in _metadata(target)
        ]
    return found


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
        if path is None:
            wanted, letters = None, NEXT_LETTERS[shape]
        elif len(steps) < len(path):
            wanted = path[len(steps)]
            letters = wanted.letter
        else:
            continue
        letters = "".join([letter for letter in letters if shape + letter in shapes])
        for step, following in _next_targets(target, letters):
            if wanted is None or covers(wanted, step):
                waiting.append(((*steps, step), shape + step.letter, following))


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
