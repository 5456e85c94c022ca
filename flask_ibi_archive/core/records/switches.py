"""The messages with which items of an offer are switched.

See :mod:`.offers`. The parsers raise FieldError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any, Literal, NamedTuple

from flask_ibi_archive.core.records import fields
from flask_ibi_archive.core.records.fields import FieldError, quoted
from flask_ibi_archive.core.records.offers import (
    MAX_ITEMS,
    MAX_NUMBER,
    parse_all,
    parse_number,
    parse_position,
)

#: The result of a switch. "switched": the giver has no Original any more. "taken": the copy was
#: noted. "changed": the item has another version now. "refused": the item stays at the giver.
Result = Literal["switched", "taken", "changed", "refused"]
RESULTS: tuple[Result, ...] = ("switched", "taken", "changed", "refused")


# --- the switch ----------------------------------------------------------------------------------


class StoredVersion(NamedTuple):
    """An item that the taker has stored, by its number in the offer, and its version."""

    number: int
    version: str


class DailyCount(NamedTuple):
    """The accesses to an item on one day, to one content type."""

    day: date
    content_type: str
    accesses: int
    double_clicks: int
    robots: int


@dataclass(frozen=True, slots=True)
class SwitchAnswer:
    """The answer of the giver about one item.

    :param reason: why the item was refused; None if it was not.
    :param counts: the counts of accesses that move along with the item.
    """

    number: int
    result: Result
    reason: str | None = None
    counts: tuple[DailyCount, ...] = ()


def format_switch(items: Iterable[StoredVersion]) -> dict[str, Any]:
    """Return a request to switch items as a JSON object."""
    return {"items": [item._asdict() for item in items]}


def parse_switch(data: object) -> tuple[StoredVersion, ...]:
    """Return the items that a request names."""
    items: tuple[StoredVersion, ...] = parse_all("", data, {"items": _parse_items})["items"]
    if not 1 <= len(items) <= MAX_ITEMS:
        raise FieldError("items", f"the list has {len(items)} items, instead of 1 to {MAX_ITEMS}")
    if len({item.number for item in items}) != len(items):
        raise FieldError("items", "an item appears twice")
    return items


def format_answers(answers: Iterable[SwitchAnswer]) -> dict[str, Any]:
    """Return the answer to a request to switch items as a JSON object."""
    return {"items": list(map(_format_answer, answers))}


def parse_answers(data: object, asked: Iterable[StoredVersion]) -> tuple[SwitchAnswer, ...]:
    """Return the answers to a request to switch items.

    :param asked: the items of the request; each must be answered, and no other.
    """
    answers: tuple[SwitchAnswer, ...] = parse_all("", data, {"items": _parse_answers})["items"]
    if [answer.number for answer in answers] != [item.number for item in asked]:
        raise FieldError("items", "the answer is not about the items that were asked for")
    return answers


def format_counts(counts: Iterable[DailyCount]) -> list[list[Any]]:
    """Return counts as JSON."""
    return [[count.day.isoformat(), *count[1:]] for count in counts]


def parse_counts(name: str, value: Any) -> tuple[DailyCount, ...]:
    """Return the counts in a JSON value. Each day and content type appears once."""
    counts = fields.parse_list(name, value, _parse_daily_count)
    if len({count[:2] for count in counts}) != len(counts):
        raise FieldError(name, "two counts have the same day and content type")
    return counts


def _format_answer(answer: SwitchAnswer) -> dict[str, Any]:
    formatted: dict[str, Any] = {"number": answer.number, "result": answer.result}
    if answer.result == "switched":
        formatted["counts"] = format_counts(answer.counts)
    if answer.reason is not None:
        formatted["reason"] = answer.reason
    return formatted


def _parse_items(name: str, value: Any) -> tuple[StoredVersion, ...]:
    return fields.parse_list(name, value, _parse_item)


def _parse_item(name: str, value: Any) -> StoredVersion:
    return StoredVersion(**parse_all(name, value, _ITEM))


def _parse_answers(name: str, value: Any) -> tuple[SwitchAnswer, ...]:
    return fields.parse_list(name, value, _parse_answer)


def _parse_answer(name: str, value: Any) -> SwitchAnswer:
    answer = SwitchAnswer(**fields.parse_members(name, value, _ANSWER, required="result"))
    if (answer.result == "refused") != (answer.reason is not None):
        raise FieldError(f"{name}.reason", "the field must say why an item was refused")
    if answer.counts and answer.result != "switched":
        raise FieldError(f"{name}.counts", "only an item that was switched has counts")
    return answer


def _parse_daily_count(name: str, value: Any) -> DailyCount:
    if not isinstance(value, list) or len(value) != len(DailyCount._fields):
        raise FieldError(name, f"{quoted(value)} is not a list: {', '.join(DailyCount._fields)}")
    return DailyCount(
        fields.parse_day(name, value[0]),
        fields.parse_choice(name, value[1], ("Data", "Metadata")),
        *(_parse_count(name, number) for number in value[2:]),
    )


# --- the parsers of fields ---

#: A number of accesses may be negative: a later access made an earlier one a double click.
_parse_count = partial(parse_number, least=-MAX_NUMBER)
_ITEM: Mapping[str, Callable[[str, Any], Any]] = {
    "number": parse_position,
    "version": fields.parse_sha256,
}
_ANSWER: Mapping[str, Callable[[str, Any], Any]] = {
    "number": parse_position,
    "result": partial(fields.parse_choice, choices=RESULTS),
    "reason": fields.parse_text,
    "counts": parse_counts,
}
