"""What a relation leads to, step by step ([R] 7.2, Table 7.5)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from flask_ibi_archive.protocol.catalogue import CatalogueItem, OwnMetadata
from flask_ibi_archive.protocol.relations import SHAPES, Step, StepKind

#: The format that metadata in another Archive is taken to carry.
ASSUMED_FORMAT = "oai_dc"

#: The steps that may follow those of a shape, by their letters.
FOLLOWING = {
    shape: "".join(letter for letter in "utm" if shape + letter in SHAPES) for shape in SHAPES
}


@dataclass(frozen=True, slots=True)
class Reached:
    """What a relation leads to: an item, or metadata of it that is no item; perhaps in a format."""

    item: CatalogueItem
    own: OwnMetadata | None = None
    format: str | None = None

    @property
    def carries_format(self) -> bool:
        """Whether it has the format; if not, it only lies on the way to a translation that may have
        it.
        """
        return self.format is None or self.own is not None or self.format in item_formats(self.item)


def last_edition(reached: Reached) -> Reached | None:
    """Follow ``.lastedition``: the end of the chain, the item itself where it has no next edition."""
    if reached.item.state is None:
        return None
    return _arrive(reached.item.last_edition())


def translations(reached: Reached) -> Iterator[tuple[str | None, Reached]]:
    """Follow ``.translation``: give each language that it leads to (None: not stated), with the
    target.
    """
    if reached.own is not None:
        yield None, reached
        return
    item = reached.item
    if item.state is None:
        return
    if item.language is None:
        yield None, reached
    for language, member in item.translations().items():
        target = _arrive(member, reached.format)
        if target is not None:
            yield language, target


def metadata(reached: Reached) -> Iterator[tuple[str | None, Reached]]:
    """Follow ``.metadata``: give the free form (None) and each format, with the target."""
    item = reached.item
    if item.state is None:
        return
    found = item.metadata()
    if found is None:
        if item.content_type != "Metadata":
            return
        found = item  # metadata are their own metadata
    if isinstance(found, OwnMetadata):
        target: Reached | None = Reached(item, found)
        formats = tuple(found.formats)
    else:
        target = _arrive(found)
        formats = _formats_of_group(found)
    if target is None:
        return
    yield None, target
    for format in formats:
        yield format, Reached(target.item, target.own, format)


def item_formats(item: CatalogueItem) -> tuple[str, ...]:
    """Return the formats of metadata that is an identified item."""
    return (ASSUMED_FORMAT,) if item.state is None else tuple(item.formats)


def _formats_of_group(item: CatalogueItem) -> tuple[str, ...]:
    """Return the formats of metadata that is an item, and of its translations, which it may lead
    to.
    """
    if item.state is None:
        return item_formats(item)
    members = [item, *item.translations().values()]
    return tuple(dict.fromkeys(format for one in members for format in item_formats(one)))


def _arrive(item: CatalogueItem | None, format: str | None = None) -> Reached | None:
    """Return an item that a step leads to, unless it is unknown, deleted or without the format."""
    if item is None or item.state == "Deleted":
        return None
    if format is not None and format not in item_formats(item):
        return None
    return Reached(item, None, format)


@lru_cache(maxsize=1024)
def step_to(kind: StepKind, parameter: str | None = None) -> Step:
    """Return a step; the same ones come again and again."""
    return Step(kind, parameter)


def next_steps(reached: Reached, letters: str) -> Iterator[tuple[Step, Reached]]:
    """Return every step of some kinds that leads on from what a relation reached."""
    if "u" in letters:
        target = last_edition(reached)
        if target is not None:
            yield step_to(StepKind.LAST_EDITION), target
    if "t" in letters:
        for language, target in translations(reached):
            yield step_to(StepKind.TRANSLATION, language), target
    if "m" in letters:
        for format, target in metadata(reached):
            yield step_to(StepKind.METADATA, format), target


def walk(
    item: CatalogueItem, path: tuple[Step, ...] | None = None, allowed: frozenset[str] | None = None
) -> Iterator[tuple[tuple[Step, ...], Reached]]:
    """Return every relation of an item that leads somewhere, with what it reaches; the empty one
    first.

    :param path: follow these steps alone; a translation without a language stands for every one.
    :param allowed: follow relations of these shapes alone (letters such as "um").
    """
    waiting: list[tuple[tuple[Step, ...], str, Reached]] = [((), "", Reached(item))]
    while waiting:
        steps, shape, reached = waiting.pop()
        if reached.carries_format:
            yield steps, reached
        if path is not None and len(steps) == len(path):
            continue
        letters = FOLLOWING[shape] if path is None else path[len(steps)].letter
        for step, target in next_steps(reached, letters):
            ahead = shape + step.letter
            if allowed is not None and ahead not in allowed:
                continue
            if path is None or covers(path[len(steps)], step):
                waiting.append(((*steps, step), ahead, target))


def covers(wanted: Step, step: Step) -> bool:
    """Tell whether a verb asks for a step: a translation without a language asks for every one."""
    return wanted == step or (
        wanted.kind is StepKind.TRANSLATION
        and wanted.parameter is None
        and step.kind is StepKind.TRANSLATION
    )


def prefixes_of(shapes: set[str]) -> frozenset[str]:
    """Return shapes together with all that they begin with."""
    return frozenset(shape[:length] for shape in shapes for length in range(len(shape) + 1))
