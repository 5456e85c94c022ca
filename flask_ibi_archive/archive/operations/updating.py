"""Writes records over items that are there already: the one place that knows in which order."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from flask_ibi_archive.errors import RuleBroken
from flask_ibi_archive.records.record import ItemRecord, MetadataItem
from flask_ibi_archive.storage.items import Contents, ItemStore
from flask_ibi_archive.storage.rules import RULES
from flask_ibi_archive.storage.states import ELSEWHERE, Event, State, next_state


def with_all_identifiers(record: ItemRecord, before: ItemRecord) -> ItemRecord:
    """Return a record with those identifiers that its item bears already: what was given stays
    given.

    :raises RuleBroken: rule 1, if it would replace one of the item's forms.
    Source: [G] 4 and 5 (an item gets its label for good).
    """
    ibi = before.identifiers[0]
    for form, now in (("rep", record.rep), ("ibip", record.ibip)):
        given = getattr(before, form)
        if None not in (given, now) and given != now:
            raise RuleBroken(1, ibi, f"it bears {given}, and an identifier is given for good")
    rep, ibip = record.rep or before.rep, record.ibip or before.ibip
    kept = [text for text in before.aliases if text not in (rep, ibip, *record.aliases)]
    aliases = [text for text in record.aliases if text not in (rep, ibip)]
    return replace(record, rep=rep, ibip=ibip, aliases=(*aliases, *kept))


def write_over(
    store: ItemStore, item_id: int, record: ItemRecord, contents: Contents, now: datetime
) -> None:
    """Write a record over an item that is here; what it says as before stays tied as it was.

    Mentions that nothing refers to any longer go. A record whose translations differ from those
    that the item's record listed says its whole group anew, as an import does.

    :param record: with all identifiers of the item (:func:`with_all_identifiers`).
    :raises RuleBroken: the rule that refuses it.
    """
    ibi = record.identifiers[0]
    before = store.read_record(item_id)
    store.check_copies(item_id, record)
    near = store.mentions_near(item_id)
    if record.translations != before.translations:
        store.dissolve_translations(item_id)
        store.leave_group(item_id)
    elif record.language is None and not before.translations and store.members(item_id):
        raise RuleBroken(8, ibi, f"its group of translations has it in {before.language}")
    new_mentions = _mentions_met(store, record, item_id)
    told = [store.leave_translations(mention) for mention in sorted(new_mentions)]
    store.point_to_metadata(item_id, None)
    store.replace_item(item_id, record, contents, now)
    for one in told:
        if one is not None:
            store.rejoin_translations(item_id, one, ibi)
    _tie_anew(store, item_id, record, before)
    store.forget_mentions(near)


def _tie_anew(store: ItemStore, item_id: int, record: ItemRecord, before: ItemRecord) -> None:
    """Tie an item as its record says now: metadata, next edition, translations where they differ."""
    ibi = record.identifiers[0]
    if isinstance(record.metadata, MetadataItem):
        store.point_to_metadata(item_id, store.mention(record.metadata.ibi))
    if record.next_edition != before.next_edition:
        store.relink_next_edition(item_id, store.following(record), ibi)
    if record.translations and record.translations != before.translations:
        members = {
            language: store.mention_apart(one, ibi) for language, one in record.translations.items()
        }
        store.join_translations(item_id, members, ibi)


def take_in(
    store: ItemStore, record: ItemRecord, contents: Contents, now: datetime, event: Event
) -> int:
    """Write an item that comes: a new one, one that was only mentioned, or over one that lets it.

    :param record: its translations are all of its group, not only those that its own record listed.
    :param event: how it comes; the state of what is here must allow it.
    :returns: its row.
    :raises ForbiddenMove: if it does not.
    :raises RuleBroken: the rule that refuses it.
    """
    ibi = record.identifiers[0]
    known = store.owners(record.identifiers)
    held = {item_id: State(state) for item_id, state in known.values() if state != ELSEWHERE}
    if len(held) > 1:
        raise RuleBroken(1, ibi, "its identifiers belong to several items of the Archive")
    if not held:
        next_state(None, event, ibi)
    if not known:
        [item_id] = store.insert_items([record], [contents], now)
        store.tie(item_id, record)
        return item_id
    near: list[int] = []
    for item_id, state in held.items():
        next_state(state, event, ibi)
        if store.is_service(item_id):
            raise RuleBroken(6, ibi, RULES[6])
        record = with_all_identifiers(record, store.read_record(item_id))
        near = store.mentions_near(item_id)
        record = _leave_what_was_told(store, item_id, record)
    item_id = min(held or {owner for owner, _ in known.values()})
    told = [
        store.leave_translations(mention)
        for mention in sorted(_mentions_met(store, record, item_id))
    ]
    store.point_to_metadata(item_id, None)
    store.replace_item(item_id, record, contents, now)
    for one in told:
        if one is not None:
            store.rejoin_translations(item_id, one, ibi)
    if held or record.next_edition is not None:
        store.relink_next_edition(item_id, store.following(record), ibi)
    store.tie(item_id, record)
    store.forget_mentions(near)
    return item_id


def _mentions_met(store: ItemStore, record: ItemRecord, own: int) -> set[int]:
    """Return the mentions that turn out to be the item of a record.

    :param own: the row of the item.
    :raises RuleBroken: rule 1, if another item bears one of its identifiers.
    """
    met = set()
    for text, (item_id, state) in store.owners(record.identifiers).items():
        if state == ELSEWHERE:
            met.add(item_id)
        elif item_id != own:
            raise RuleBroken(1, text, RULES[1])
    return met


def _leave_what_was_told(store: ItemStore, item_id: int, record: ItemRecord) -> ItemRecord:
    """Take an item out of its group of translations, with what others were only said to be in it.

    :returns: the record, with those of the group that are Originals of this Archive: they are
        translations that were added here, and stay.
    """
    added = {}
    for member in store.members(item_id):
        if member.id == item_id:
            continue
        if member.state != State.ORIGINAL.value:
            store.leave_group(member.id)
        elif member.language is not None and member.ibi not in record.translations.values():
            added[member.language] = member.ibi
    store.leave_group(item_id)
    added.pop(record.language, None)
    return replace(record, translations={**added, **record.translations})


def add_to_group(store: ItemStore, record: ItemRecord, item_id: int, other_id: int) -> None:
    """Put an item into the group of another.

    :param record: the item's; it states a language.
    :raises RuleBroken: rule 8, if the group has that language already.
    """
    ibi = record.identifiers[0]
    members = store.members(other_id)
    taken = next((member.ibi for member in members if member.language == record.language), None)
    if taken is not None:
        raise RuleBroken(8, ibi, f"{taken} is the translation into {record.language} already")
    store.join_translations(store.head_of(other_id), {str(record.language): item_id}, ibi)
