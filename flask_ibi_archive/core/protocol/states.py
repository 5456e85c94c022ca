"""The states of an item and the transitions between them ([R] 2, Figure 3.4).

An item is an Original, or a Copy of an Original in another Archive. A removed item is not erased:
it gets the state Deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from flask_ibi_archive.errors import StorageError


class State(str, Enum):
    """The three states of an identified item ([R] 2)."""

    ORIGINAL = "Original"
    COPY = "Copy"
    DELETED = "Deleted"


#: The state of a stub. A stub is a row that represents an item of another Archive, because an item
#: of this Archive refers to that item.
ELSEWHERE = "Elsewhere"


class Event(str, Enum):
    """An operation on an item.

    The value of an event is a verb phrase: error messages write it after the words "it can't".
    """

    DEPOSIT = "be deposited"
    EDIT = "be edited"
    #: This event is also allowed for a Deleted item, because a Deleted item keeps its place in the
    #: chain of editions.
    EDITION = "be given a next edition"
    TRANSLATION = "be given a translation"
    #: Another Archive makes a Copy of this Original.
    BE_COPIED = "be copied"
    #: The item becomes a Copy of an Original in another Archive. A Copy is updated.
    COPY = "become a Copy"
    TRANSFER = "be transferred"
    TRANSFER_KEEPING_COPY = "be transferred and stay here as a Copy"
    #: Another Archive transfers the Original to this Archive.
    RECEIVE = "be received as an Original"
    DELETE = "be deleted"


#: The allowed events for each old state, and the new state after each event. The old state None
#: means that the item does not exist. An import is not an event: an import stores the state in the
#: imported record.
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

    :param state: the state before the event; None if the item does not exist.
    :param ibi: the identifier of the item, for the message.
    :raises StorageError: if the state does not allow the event.
    """
    try:
        return TRANSITIONS[state][event]
    except KeyError:
        allowed = [earlier.value for earlier in State if event in TRANSITIONS[earlier]]
        found = "does not exist" if state is None else f"has the state {state.value}"
        only = f"only an item that is {' or '.join(allowed)} can" if allowed else "no item can"
        raise StorageError(f"{ibi} {found}: it can't {event.value}; {only}") from None
