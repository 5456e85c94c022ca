"""The methods of an Archive that store, count and delete accesses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING

from flask_ibi_archive.archive.accesses import access_rows
from flask_ibi_archive.archive.accesses.acknowledgments import Acknowledgments
from flask_ibi_archive.archive.accesses.statistics import LABEL_LENGTHS, Statistics, sum_counts
from flask_ibi_archive.archive.service.url_keys import CLOCK_LEEWAY
from flask_ibi_archive.core.identifiers import parse_identifier
from flask_ibi_archive.core.protocol.hosts import find_client
from flask_ibi_archive.core.protocol.messages import NO_AGENTS, Acknowledgment, Agents
from flask_ibi_archive.core.records.item_view import ItemView
from flask_ibi_archive.signals import Notice, access_acknowledged

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive

#: Additional seconds for which accesses with expired URL keys are kept.
#: An acknowledgment may be delayed.
MARGIN = 3600


@dataclass(frozen=True, slots=True)
class PurgeResult:
    """The result of a purge or of a dry run.

    :param purged: the number of deleted accesses; in a dry run, of accesses that would be deleted.
    :param before: the first day (UTC) whose accesses are not deleted.
    """

    purged: int
    before: date


def create_acknowledgments(archive: Archive) -> Acknowledgments:
    """Return the object that checks acknowledgments and stores the accesses that they report."""
    return Acknowledgments(
        archive.database,
        archive.url_keys,
        lambda: (archive.served(), archive.facts()),
        archive.items,
        archive.config.anonymise_ips,
        clock=lambda: archive.clock().timestamp(),
    )


def take_acknowledgment(
    archive: Archive, acknowledgment: Acknowledgment, agents: Agents = NO_AGENTS
) -> bool:
    """Count the access that an acknowledgment reports; return False if it does not count.

    :param agents: the User-Agent headers, by which robots are recognised.
    :raises NotReady: if the access cannot be stored.
    """
    counts = archive.accesses.record(acknowledgment, agents)
    if counts and access_acknowledged.receivers:
        values = {
            "ibi": acknowledgment.ibi[0].text if acknowledgment.ibi else None,
            "client_address": find_client(
                acknowledgment.client_addresses, archive.config.anonymise_ips
            ),
            "url": acknowledgment.url,
            "persistent_url": acknowledgment.persistent_url,
            "content_type": acknowledgment.content_type,
        }
        archive.notifier.send([Notice(access_acknowledged, values)])
    return counts


def read_statistics(archive: Archive, ibi: str | None = None, by: str = "month") -> Statistics:
    """Return the counts of the accesses to an item or to the whole Archive.

    ::

        statistics = ibi.archive.statistics(item.ibi)
        statistics.views, statistics.downloads

    :param ibi: an identifier of the item; None for the whole Archive.
    :param by: the kind of the periods: day, month or year.
    :raises IdentifierError: if ``ibi`` is not an identifier.
    :raises UnknownItem: if no item of this Archive has the identifier.
    :raises ValueError: if ``by`` is not day, month or year.
    """
    if by not in LABEL_LENGTHS:
        raise ValueError(f"the parameter by must be one of {', '.join(LABEL_LENGTHS)}, not {by!r}")
    text = None if ibi is None else parse_identifier(ibi).text
    archive_id = archive.served().id
    with archive.database.snapshot() as connection:
        # an item of the host's catalogue may have several rows, each with its own counts
        rows = [None] if text is None else archive.items.find_rows(connection, text)
        counts = [
            day
            for item_id in rows
            for day in access_rows.read_counts(connection, archive_id, item_id)
        ]
    return sum_counts(text, by, counts)


def count_views(archive: Archive, item: ItemView) -> Statistics:
    """Return the accesses of readers who requested an item, by month.

    ::

        for item in ibi.archive.find("calibration"):
            print(item.title, ibi.archive.count_views(item).views)

    This function needs fewer SQL statements than :meth:`statistics`.
    """
    if item.id is None:
        return read_statistics(archive, item.ibi)
    item_id = item.id
    counts = archive.database.read(lambda connection: access_rows.read_months(connection, item_id))
    return sum_counts(None, "month", counts)


def purge(archive: Archive, days: int | None = None, dry_run: bool = False) -> PurgeResult:
    """Delete old accesses, but keep the daily counts.

    The accesses of each day (UTC) are deleted in a separate transaction. If the process is killed,
    each day is either deleted completely or not at all.

    :param days: the number of days after which accesses are deleted; None means the value of
        the setting IBI_KEEP_ACCESSES.
    :param dry_run: if true, accesses are only counted and not deleted.
    :raises NotReady: if the database does not respond.
    """
    config, database, archive_id = archive.config, archive.database, archive.served().id
    now = archive.accesses.clock()
    days = config.keep_accesses if days is None else days
    # Do not delete accesses whose URL keys are still valid: the stored access prevents that the
    # key is used again.
    keys_expired = math.floor(now - config.url_key_max_age - 2 * CLOCK_LEEWAY - MARGIN)
    before = min(
        access_rows.get_utc_day(int(now)) - timedelta(days=days),
        access_rows.get_utc_day(keys_expired),
    )
    if dry_run:
        with database.reading() as connection:
            return PurgeResult(
                access_rows.count_accesses_before(connection, archive_id, before), before
            )
    purged = 0
    while True:
        with database.writing(table_lock=access_rows.PURGING) as connection:
            day = access_rows.find_first_day(connection, archive_id)
            if day is None or day >= before:
                access_rows.delete_old_salts(connection, access_rows.get_utc_day(int(now)))
                return PurgeResult(purged, before)
            purged += access_rows.delete_day(connection, archive_id, day)
