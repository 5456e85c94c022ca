"""The sets of items that a host has defined for harvesters (OAI-PMH)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from flask_ibi_archive.archive.harvest.oai_requests import is_set_spec
from flask_ibi_archive.archive.items.host_calls import logging_failure
from flask_ibi_archive.core.records.work import Work
from flask_ibi_archive.errors import CannotFindSets

#: The largest length of a setSpec.
MAX_SPEC = 255

#: A function of the host that returns the sets of an item.
FindItemSets = Callable[[Work], Iterable[str]]


@dataclass
class HarvestSets:
    """The sets that a host has defined.

    :ivar names: the name of each set for people, by its setSpec.
    :ivar find: returns the sets of an item; None if there are no sets.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    find: FindItemSets | None = None

    def define(self, names: Mapping[str, str], find: FindItemSets) -> None:
        """Define the sets; see :meth:`flask_ibi_archive.IBIArchive.oai_sets`.

        :raises ValueError: if a setSpec is wrong or too long.
        """
        for spec in names:
            if not is_set_spec(spec) or len(spec) > MAX_SPEC:
                raise ValueError(f"{spec!r} is not a setSpec, such as 'theses:master'")
        self.names, self.find = dict(names), find

    def list_sets(self, work: Work) -> set[str]:
        """Return the sets of an item. A set "a:b" is a part of the set "a" (OAI-PMH 2.0, 2.6).

        If the function of the host fails or returns an unknown set, this is logged, and the item
        belongs to no set: harvesters still find it in the list of all items.
        """
        with suppress(CannotFindSets), logging_failure(CannotFindSets(work.ibi)):
            return self._list_sets(work)
        return set()

    def _list_sets(self, work: Work) -> set[str]:
        found: set[str] = set()
        for spec in () if self.find is None else self.find(work):
            if spec not in self.names:
                raise ValueError(f"{spec!r} is not one of the sets {', '.join(self.names)}")
            parts = spec.split(":")
            found.update(":".join(parts[:count]) for count in range(1, len(parts) + 1))
        return found & self.names.keys()
