"""The sets of OAI-PMH: those that every Archive has, and those that the host has defined.

The sets of an item are stored when its change is moved to the harvest log.

Sources: OAI-PMH 2.0, 2.6 (sets) and 4.6 (ListSets); DRIVER Guidelines 2.0 and OpenAIRE Guidelines
for Literature Repositories 3.0 (their sets).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from flask_ibi_archive.archive.items.access import logging_failure
from flask_ibi_archive.core.records.work import Work
from flask_ibi_archive.core.records.work_types import WorkType
from flask_ibi_archive.errors import HostFunctionFailed

# the pattern of OAI-PMH.xsd
_WORD = r"[A-Za-z0-9\-_.!~*'()]+"
SET_SPEC = re.compile(rf"{_WORD}(:{_WORD})*\Z")
#: The largest length of a setSpec.
MAX_SPEC = 255
#: A hidden set with the theses, for the formats that describe theses alone. It has no setSpec that
#: a harvester could use.
THESES = "=theses"
#: The sets that aggregators harvest, and their names.
_SHARED = {"openaire": "OpenAIRE", "driver": "Open Access DRIVERset"}

#: A function of the host that returns the sets of an item.
FindItemSets = Callable[[Work], Iterable[str]]


def is_set_spec(text: str) -> bool:
    """Return whether a text has the form of a setSpec."""
    return SET_SPEC.match(text) is not None


def _make_type_spec(type: WorkType) -> str:
    return f"type:{type.value.replace(' ', '-')}"


#: The names of the sets of types, by their setSpecs.
TYPES = {_make_type_spec(type): type.value.capitalize() for type in WorkType}


def find_default_sets(work: Work) -> Iterator[str]:
    """Yield the sets to which an item of any Archive belongs.

    DRIVER collects what is open to all readers, OpenAIRE also what a grant has paid for.
    """
    is_open = (work.access or work.access_right) == "open"
    if is_open:
        yield "driver"
    if is_open or work.funding:
        yield "openaire"
    yield _make_type_spec(work.type)
    if work.type.is_thesis:
        yield THESES


@dataclass
class HarvestSets:
    """The sets of an Archive.

    :ivar names: the name of each set of the host for people, by its setSpec.
    :ivar find: returns the sets of an item, of those of the host; None if the host has no sets.
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

    def list_names(self, types: Iterable[str]) -> dict[str, str]:
        """Return the names of all sets for people, by setSpec.

        :param types: the setSpecs of the types of the items.
        """
        return {**_SHARED, **{spec: TYPES[spec] for spec in types}, **self.names}

    def list_sets(self, work: Work) -> set[str]:
        """Return the sets of an item. A set "a:b" is a part of the set "a" (OAI-PMH 2.0, 2.6).

        If the function of the host fails or returns an unknown set, this is logged, and the item
        belongs to no set of the host.
        """
        found = {*find_default_sets(work)} - self.names.keys()
        failure = HostFunctionFailed(f"the sets of the item {work.ibi} can't be found")
        with suppress(HostFunctionFailed), logging_failure(failure):
            found |= self._list_sets(work)
        return found

    def _list_sets(self, work: Work) -> set[str]:
        found: set[str] = set()
        for spec in () if self.find is None else self.find(work):
            if spec not in self.names:
                raise ValueError(f"{spec!r} is not one of the sets {', '.join(self.names)}")
            parts = spec.split(":")
            found.update(":".join(parts[:count]) for count in range(1, len(parts) + 1))
        return found & self.names.keys()
