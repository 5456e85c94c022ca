"""Trace events: the messages and decisions of a resolution, in the order in which they happen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from flask_ibi_archive.protocol.pairs import Pair
from flask_ibi_archive.resolution.answer import ArchiveSource
from flask_ibi_archive.resolution.outcome import Alert, NextRound, Redirect


@dataclass(frozen=True, slots=True)
class Asked:
    """A request is sent to an Archive.

    :param url: the complete URL of the request.
    :param by_hint: whether the Archive is asked before the others because of a hint.
    """

    source: ArchiveSource
    url: str
    by_hint: bool = False


@dataclass(frozen=True, slots=True)
class Answered:
    """An Archive answered.

    :param pairs: the pair list; it is empty if the Archive does not know the item.
    """

    source: ArchiveSource
    pairs: tuple[Pair, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Failed:
    """An Archive did not answer correctly.

    :param reason: one line that follows the Archive's address.
    """

    source: ArchiveSource
    reason: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Skipped:
    """The circuit breaker skips an Archive because it failed repeatedly."""

    source: ArchiveSource


@dataclass(frozen=True, slots=True)
class Decided:
    """A round has ended.

    :param late: the number of Archives whose answers were not waited for.
    """

    round: int
    outcome: Redirect | NextRound | Alert
    late: int = 0


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """An acknowledgment is sent to an Archive."""

    source: ArchiveSource
    url: str


TraceEvent: TypeAlias = Asked | Answered | Failed | Skipped | Decided | Acknowledged
Trace: TypeAlias = Callable[[TraceEvent], None]
