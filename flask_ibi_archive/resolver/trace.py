"""What happens in a resolution, told as it happens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from flask_ibi_archive.protocol.pairs import Pair
from flask_ibi_archive.resolution.answer import ArchiveSource
from flask_ibi_archive.resolution.outcome import Alert, Ask, Redirect


@dataclass(frozen=True, slots=True)
class Asked:
    """An Archive is asked.

    :param url: the whole message.
    :param by_hint: whether it is asked before the others, since the item was found there last.
    """

    source: ArchiveSource
    url: str
    by_hint: bool = False


@dataclass(frozen=True, slots=True)
class Answered:
    """An Archive answered.

    :param pairs: none: the item is unknown there.
    """

    source: ArchiveSource
    pairs: tuple[Pair, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Failed:
    """An Archive did not answer as it should.

    :param reason: to be read behind its address.
    """

    source: ArchiveSource
    reason: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Skipped:
    """An Archive is not asked: it failed again and again."""

    source: ArchiveSource


@dataclass(frozen=True, slots=True)
class Decided:
    """A round is over.

    :param late: how many Archives were not waited for any longer.
    """

    round: int
    outcome: Redirect | Ask | Alert
    late: int = 0


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """An acknowledgment is on its way."""

    source: ArchiveSource
    url: str


TraceEvent: TypeAlias = Asked | Answered | Failed | Skipped | Decided | Acknowledged
Trace: TypeAlias = Callable[[TraceEvent], None]
