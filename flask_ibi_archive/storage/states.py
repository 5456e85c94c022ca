"""The states of an item and the transitions between them ([R] 2, Figure 3.4)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from flask_ibi_archive.errors import ForbiddenMove


class State(str, Enum):
    """The three states of an identified item ([R] 2)."""

    ORIGINAL = "Original"
    COPY = "Copy"
    DELETED = "Deleted"


#: The state of a stub: a row for an item that is not in this Archive, but that its items refer to.
ELSEWHERE = "Elsewhere"


class Event(str, Enum):
    """What can happen to an item; a message shows the value after "it can't"."""

    DEPOSIT = "be deposited"
    EDIT = "be edited"
    #: possible for a deleted item too, because it keeps its place in the chain
    EDITION = "be given a next edition"
    TRANSLATION = "be given a translation"
    #: be the Original that a Copy is made of
    BE_COPIED = "be copied"
    #: become a Copy of an Original in another Archive, or be refreshed
    COPY = "become a Copy"
    TRANSFER = "be transferred"
    TRANSFER_KEEPING_COPY = "be transferred with a Copy left behind"
    #: become the Original that another Archive transfers
    RECEIVE = "be received as an Original"
    DELETE = "be deleted"


#: State -> event -> new state; None: the item does not exist. Other events are not allowed. An
#: import is not an event: it stores the state in the record.
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

    :param state: the old state; None if the item does not exist.
    :param ibi: the item, for the message.
    :raises ForbiddenMove: if the state does not allow the event.
    """
    try:
        return TRANSITIONS[state][event]
    except KeyError:
        allowed = tuple(one.value for one in State if event in TRANSITIONS[one])
        found = None if state is None else state.value
        raise ForbiddenMove(ibi, found, event.value, allowed) from None
