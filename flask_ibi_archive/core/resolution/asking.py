"""Whom to ask a question, if Archives publish claims of what they hold (federation, CL-8 to CL-10).

A *claim* is a signed statement of an Archive: it holds an item as Original or Copy, or has removed
it. The resolver has read all claims of an Archive whose log is up to date. So an Archive without a
claim of an item need not be asked about it, and "no Archive has this item" is known without asking.
For each question, an Archive is one of these:

- *always asked*: it publishes no claims, or its claims are too old or can't be trusted. Only its
  answer says what it holds. A claim that it made earlier is at most a reason to ask it first.
- *claimant*: it claims the item, and its claims are up to date.
- *silent claimant*: the same, but it did not answer the resolver lately. It is asked last, because
  it may answer again. If its answer can't change the outcome, it is not asked, and its claim stands
  in for its answer.
- *hinted*: nobody claims the Original, but the Archive holds items with the same prefix, or had the
  item before. It may have got the item seconds ago, and not claimed it yet, or it never claims it,
  because the description is hidden from the public. It is asked, but its silence means nothing,
  because its claims do not contain the item.
- all others: they claim other items, and are not asked.

Any URL of an item is right, so usually one answer is enough: the leading claimant is asked first.
It is the one that claims the Original, else a Copy, else the removal. Everybody else is asked only
if it does not answer soon, or has no URL for this reader.

Only one Archive can have the Original. If the Original is required, the answers of all that claim
it, and of all that are always asked, are awaited. The other claimants are asked if none of these
has it, to say what the item has instead. But this order is possible only if the reader wants the
named item itself. The claims say nothing about the state of a related item, such as the last
edition, so in that case all claimants are asked at once.

A claim stands in for an answer that does not come, if the reader wants the named item itself: a
removal is a tombstone, and an Original that is required has one more claimant, so that two of them
are a suspicion. Such an answer is not worth a long wait. But a claim contains no URL: if only a
silent Archive claims to have the item, the outcome is that this Archive did not answer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from flask_ibi_archive.core.protocol.states import State

#: The order in which claimants are asked.
_ORDER = {State.ORIGINAL: 0, State.COPY: 1, State.DELETED: 2}


@dataclass(frozen=True, slots=True)
class Claims:
    """What a resolver knows about an item without asking. All numbers are ids of Archives.

    :param states: the claimed state for each included Archive that claims the item.
    :param holders: the Archives with items that have the same prefix.
    """

    states: Mapping[int, State] = field(default_factory=dict)
    holders: Sequence[int] = ()


#: What is known about an item that nobody claims.
NOTHING = Claims()


@dataclass(frozen=True, slots=True)
class Asking:
    """Whom to ask a question. All numbers are ids of Archives.

    :param first: the Archives that are asked first.
    :param others: those that are asked if the first ones do not lead to a redirect.
    :param optional: those whose silence means nothing. They are asked together with the Archives
        that are always asked.
    :param asks_always: whether the Archives that are always asked receive the question.
    :param stand_ins: the claims that stand in for the answers of Archives that do not answer.
    :param silent: the claimants that are not asked, because they do not answer and need not.
    """

    first: Sequence[int] = ()
    others: Sequence[int] = ()
    optional: Sequence[int] = ()
    asks_always: bool = True
    stand_ins: Mapping[int, State] = field(default_factory=dict)
    silent: Sequence[int] = ()


#: All Archives that are always asked, and nobody else.
ASK_ALWAYS = Asking()


def order_claimants(states: Mapping[int, State]) -> list[int]:
    """Return Archives in the order in which they are asked: first that with the Original."""
    return sorted(states, key=lambda archive: (_ORDER[states[archive]], archive))


def choose_archives(
    claims: Claims,
    always: Collection[int],
    silent: Collection[int] = (),
    hinted: int | None = None,
    requires_original: bool = False,
    names_item: bool = True,
) -> Asking:
    """Return whom to ask a question.

    :param claims: what is known about the item of the question.
    :param always: the Archives that are always asked.
    :param silent: the Archives with valid claims that do not answer.
    :param hinted: the included Archive where the item was last found, or None.
    :param requires_original: whether only the Original is acceptable.
    :param names_item: whether the reader wants the item of the question, not a related item.
    """
    states = claims.states
    if not states and not claims.holders and hinted is None:
        return ASK_ALWAYS
    asked = order_claimants(states)
    originals = [archive for archive in states if states[archive] is State.ORIGINAL]
    unheard = [archive for archive in asked if archive in silent]
    if unheard:
        asked = [archive for archive in asked if archive not in silent]
        if not requires_original or (names_item and len(originals) < 2):
            asked, unheard = [*asked, *unheard], []
    optional: list[int] = []
    if not originals:
        hints = claims.holders if hinted is None else (hinted, *claims.holders)
        optional = [
            archive
            for archive in dict.fromkeys(hints)
            if not (archive in always or archive in silent or archive in states)
        ]
    if requires_original:
        first, others = asked, []
        if names_item and originals:
            first = [archive for archive in asked if archive in originals]
            others = [archive for archive in asked if archive not in originals]
    else:
        is_removed = not asked or states[asked[0]] is State.DELETED
        if is_removed and hinted is not None and hinted in always:
            asked = [hinted, *[archive for archive in asked if archive != hinted]]
        first, others = asked[:1], asked[1:]
    stand_ins = {
        archive: state
        for archive, state in states.items()
        if names_item
        and archive not in always
        and (state is State.DELETED or (requires_original and state is State.ORIGINAL))
    }
    return Asking(first, others, optional, True, stand_ins, unheard)
