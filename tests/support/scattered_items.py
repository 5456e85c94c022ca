"""Items that are scattered over Archives, so that Archives know different things about an item."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from flask_ibi_archive.core.identifiers.parse import parse_identifier
from support.networks import service_of
from support.stores import Json, identifiers_of


class ScatteredItems:
    """The items of some Archives.

    :param random_: decides what happens to an item.
    :param parts: the records of each Archive.
    """

    def __init__(self, random_: random.Random, parts: list[list[Json]]) -> None:
        self.random = random_
        self.parts = parts

    def _chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def scatter(self, whole: Sequence[Json]) -> None:
        """Put each item into one to three Archives."""
        for record in whole:
            places = self.random.sample(range(len(self.parts)), self.random.choice((1, 1, 2, 3)))
            self.parts[places[0]].append(record)
            for place in places[1:]:
                self.parts[place].append(self._copy(record, service_of(places[0])))

    def _copy(self, record: Json, service: str) -> Json:
        """Return the record of a copy or a tombstone, which lacks some of the data."""
        copy = {**record, "state": "Copy", "original_archive": service}
        copy.pop("tombstone", None)
        if self._chance(0.4):
            copy["state"] = "Deleted"
            copy.pop("embargo", None)
            copy.pop("original_archive")
            if self._chance(0.5):
                copy["tombstone"] = {"reason": "moved", "original_archive": service}
        if self._chance(0.3):
            copy["timestamp"] = f"2012-0{self.random.randint(1, 9)}-02T03:04:05Z"
        names = [name for name in ("rep", "ibip") if name in copy]
        if len(names) == 2 and self._chance(0.3):
            del copy[self.random.choice(names)]
        for name in ("aliases", "translations", "next_edition", "metadata", "access", "files"):
            if self._chance(0.15):
                copy.pop(name, None)
        if "files" not in copy:
            copy.pop("target_file", None)
        if identifiers_of(copy) != identifiers_of(record):
            # the translations may name the item itself, by an identifier that the copy lacks
            copy.pop("translations", None)
        return copy

    def make_cycle(self) -> None:
        """Let two items in different Archives be the next edition of each other."""
        if not self._chance(0.3):
            return
        home, other = self.random.sample(self.parts, 2)
        if home and other:
            first, second = self.random.choice(home), self.random.choice(other)
            if not set(identifiers_of(first)) & set(identifiers_of(second)):
                first["next_edition"] = identifiers_of(second)[0]
                second["next_edition"] = identifiers_of(first)[0]
        for part in self.parts:  # an Archive does not accept a cycle
            by_name = {name: record for record in part for name in identifiers_of(record)}
            for record in part:
                seen = []
                following: Json | None = record
                while following is not None:
                    seen.append(following)
                    name = following.get("next_edition")
                    found = name and by_name.get(parse_identifier(name).text)
                    if any(one is found for one in seen):
                        del following["next_edition"]
                        found = None
                    following = found or None

    def claim_twice(self) -> None:
        """Let Archives claim the Original of some items that another one has, too."""
        for part in self.parts:
            for record in part:
                if record.get("state") == "Copy" and self._chance(0.2):
                    del record["state"], record["original_archive"]


def is_hidden(record: Mapping[str, Any]) -> bool:
    """Return whether the description of an item is hidden from the public."""
    return record.get("access", {}).get("others") == "none"
