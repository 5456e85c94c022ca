"""The states of an item and the moves between them ([R] 2, Figure 3.4)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from flask_ibi_archive.errors import ForbiddenMove


class State(str, Enum):
    """The state of an identified item: one of three, nothing else ([R] 2)."""

    ORIGINAL = "Original"
    COPY = "Copy"
    DELETED = "Deleted"


#: Stands in the state column of a row that is no item of this Archive, only what its items refer
#: to: an identifier that lives elsewhere, or that nobody has brought here yet.
ELSEWHERE = "Elsewhere"


class Event(str, Enum):
    """What can happen to an item; the value says it as it follows "it can't"."""

    DEPOSIT = "be deposited"
    EDIT = "be edited"
    #: be given a next edition, which a removed item may: it keeps its place in the chain
    EDITION = "be given a next edition"
    TRANSLATION = "be given a translation"
    #: be what a Copy is made of
    BE_COPIED = "be copied"
    #: become, or be refreshed as, a Copy of the Original of another Archive
    COPY = "become a Copy"
    TRANSFER = "be transferred"
    TRANSFER_KEEPING_COPY = "be transferred with a Copy left behind"
    #: become the Original that another Archive gives away
    RECEIVE = "be received as an Original"
    DELETE = "be deleted"


#: State -> event -> state; None: there is no such item. What is not here is refused. An import is
#: no event: it writes the state that its record says.
TRANSITIONS: Mapping[State | None, Mapping[Event, State]] = {
    None: {
        Event.DEPOSIT: State.ORIGINAL,
        Event.COPY: State.COPY,
        Event.RECEIVE: State.ORIGINAL,
    },
    State.ORIGINAL: {
        Event.EDIT: State.ORIGINAL,
        Event.EDITION: State.ORIGINAL,
        Event.TRANSLATION: State.ORIGINAL,
        Event.BE_COPIED: State.ORIGINAL,
        Event.TRANSFER: State.DELETED,
        Event.TRANSFER_KEEPING_COPY: State.COPY,
        Event.DELETE: State.DELETED,
    },
    State.COPY: {
        Event.TRANSLATION: State.COPY,
        Event.COPY: State.COPY,
        Event.RECEIVE: State.ORIGINAL,
        Event.DELETE: State.DELETED,
    },
    State.DELETED: {
        Event.EDITION: State.DELETED,
        Event.COPY: State.COPY,
        Event.RECEIVE: State.ORIGINAL,
    },
}


def next_state(state: State | None, event: Event, ibi: str) -> State:
    """Return the state of an item after an event.

    :param state: its state before, None where there is no such item.
    :param ibi: the item, for the message.
    :raises ForbiddenMove: if that state does not allow it.
    """
    try:
        return TRANSITIONS[state][event]
    except KeyError:
        allowed = tuple(one.value for one in State if event in TRANSITIONS[one])
        found = None if state is None else state.value
        raise ForbiddenMove(ibi, found, event.value, allowed) from None
