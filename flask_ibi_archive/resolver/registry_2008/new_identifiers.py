"""New identifiers of actors and documents: minting, and the check that no Archive has them.

The identifiers are repository names with the prefix of the document registry. The temporal
distributor issues each date only once ([G] 6, Algorithm 4). The last date is in the database.
Therefore several processes never mint the same identifier, even if the clock was set back.

Anyone can be an actor. Without this check, a stranger could register the identifier of an item, and
readers of the item would get the URL of the stranger while the Archive does not answer. Therefore
an identifier is refused if an included Archive knows it, also if the Archive removed the item, and
if a hint (hints.py) says that a registered Archive had it.

An Archive that does not answer now may have the identifier, so the actor must try again later. But
an Archive may be down for weeks. After :data:`MAX_SILENCE`, the Archive only stops the registration
of identifiers that it may have minted, or with a prefix of identifiers that were found there. No
other Archive stops an actor from registering identifiers that contain the actor's own host.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from fractions import Fraction
from math import ceil
from time import monotonic
from typing import TypeAlias

from sqlalchemy import Connection, and_, func, or_, select, update

from flask_ibi_archive.core import identifiers
from flask_ibi_archive.core.identifiers import Identifier, parse_identifier
from flask_ibi_archive.core.protocol.messages import format_request
from flask_ibi_archive.core.protocol.relations import VerbList
from flask_ibi_archive.core.resolution.answer import Question
from flask_ibi_archive.errors import DocumentRegistryError, NotReady
from flask_ibi_archive.resolver.archive_rows import IncludedArchive, is_minted_at, list_included
from flask_ibi_archive.resolver.asking import FanOut, Reply, Target
from flask_ibi_archive.resolver.config import MINT_GRANULARITY
from flask_ibi_archive.resolver.registry_2008.tables import MintedPrefix, UsedIdentifier
from flask_ibi_archive.resolver.resolution_context import OwnArchive
from flask_ibi_archive.resolver.tables import Hint, RegisteredArchive
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.dialects import insert_or_update

#: The maximum number of seconds to wait for the date of an identifier.
MAX_WAIT = 10

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def mint(
    database: Database,
    host: str,
    port: int,
    now: Callable[[], datetime],
    wait: Callable[[float], None],
) -> str:
    """Return a new identifier, and wait until its date is reached.

    No transaction is open during the wait.

    :param host: the host name in the identifier.
    :param port: the port in the identifier.
    :param now: returns the current date.
    :param wait: waits for a number of seconds.
    :raises DocumentRegistryError: "unavailable" if the wait would be too long, because the clock
        was set back. No date is used up.
    :raises NotReady: if the database is not available.
    """

    def read_clock() -> Fraction:
        return Fraction((now() - EPOCH) // timedelta(microseconds=1), 10**6)

    with database.writing() as connection:
        identifier, moment = _issue(connection, host, port, read_clock)
    identifiers.wait_until(moment, MAX_WAIT, read_clock, wait)
    return identifier


def _issue(
    connection: Connection, host: str, port: int, read_clock: Callable[[], Fraction]
) -> tuple[str, Fraction]:
    """Return a new identifier, and the time from which it may be used."""
    prefix = identifiers.build_repository_prefix(host, port)
    last = _lock_last_date(connection, prefix)
    now = read_clock()
    while True:
        last, delay = identifiers.next_suffix_date(now, last, MINT_GRANULARITY)
        if delay > MAX_WAIT:
            raise DocumentRegistryError(
                "unavailable",
                "no identifier can be made now, because the clock of the resolver was set back",
                ceil(delay),
            )
        identifier = identifiers.build_repository_name(host, port, last).text
        # an actor may have chosen this identifier
        used = select(UsedIdentifier).where(UsedIdentifier.identifier == identifier)
        if connection.execute(used).first() is None:
            _store_last_date(connection, prefix, last)
            return identifier, now + delay


def _lock_last_date(connection: Connection, prefix: str) -> Fraction | None:
    """Lock a prefix and return the last date that was issued under the prefix, or None."""
    statement = insert_or_update(connection, MintedPrefix).values(prefix=prefix, last_date="")
    # the update changes nothing, but locks the row and returns the present value
    last_date = connection.execute(
        statement.on_conflict_do_update(
            index_elements=["prefix"], set_={"last_date": MintedPrefix.last_date}
        ).returning(MintedPrefix.last_date)
    ).scalar_one()
    return identifiers.parse_decimal(last_date) if last_date else None


def _store_last_date(connection: Connection, prefix: str, date: Fraction) -> None:
    """Store a date as the last date that was issued under a prefix."""
    connection.execute(
        update(MintedPrefix)
        .where(MintedPrefix.prefix == prefix)
        .values(last_date=identifiers.format_decimal(date))
    )


#: The time after which an Archive that does not answer stops fewer registrations.
MAX_SILENCE = timedelta(days=7)
#: The seconds after which an actor should try again.
RETRY_AFTER = 600


@dataclass(frozen=True, slots=True)
class Applicant:
    """Who wants to register an identifier.

    :param host: the host of the actor, which was found in the DNS.
    :param ip: the IP address of the actor.
    :param sender: the IP address from which the request came.
    :param own: the Archive in this process. None if this process has no Archive.
    """

    host: str
    ip: str
    sender: str
    own: OwnArchive | None = None


#: Asks some Archives about an identifier. The result says for the id of each Archive that answered
#: whether the Archive knows the identifier.
AskArchives: TypeAlias = Callable[
    [Sequence[IncludedArchive], Identifier, Applicant], Mapping[int, bool]
]


def ask_archives(
    fan_out: FanOut,
    archives: Sequence[IncludedArchive],
    ibi: Identifier,
    applicant: Applicant,
    *,
    seconds: float,
) -> Mapping[int, bool]:
    """Ask Archives about an identifier, as described at :data:`AskArchives`.

    :param seconds: the maximum time to wait for the answers.
    """
    question, own = Question(ibi, VerbList()), applicant.own
    query = format_request(question.create_request((applicant.sender,)))
    found: dict[int, bool] = {}
    targets = []
    for archive in archives:
        if own is None or archive.service_ibi != own.service_ibi:
            targets.append(Target(archive, f"{archive.service_url}?{query}", question))
            continue
        with suppress(NotReady):
            found[archive.id] = bool(own.answer(question, (applicant.sender,)))
    end = monotonic() + seconds
    replies = fan_out.ask(targets, seconds)
    while (result := replies.get(end - monotonic())) is not None:
        if isinstance(result, Reply):
            found[result.target.archive.id] = bool(result.pairs)
    replies.abandon()
    return found


def check_archives(
    database: Database, ask: AskArchives, ibi: str, applicant: Applicant, now: datetime
) -> None:
    """Check that no Archive has or had an identifier. No transaction may be open.

    :param ibi: the identifier in canonical case.
    :raises DocumentRegistryError: "conflict" if an Archive has or had the identifier, or
        "unavailable" if an Archive that may have it does not answer.
    :raises NotReady: if the database is not available.
    """
    identifier = parse_identifier(ibi)
    (archives, _), holder = database.read(
        lambda connection: (list_included(connection, None), _find_holder(connection, ibi))
    )
    if holder is None:
        answers = ask(archives, identifier, applicant)
        holder = next(
            (archive.service_ibi for archive in archives if answers.get(archive.id)), None
        )
    if holder is not None:
        raise DocumentRegistryError(
            "conflict", f"the Archive {holder} has or had {ibi}; send another identifier, or none"
        )
    silent = {archive.id: archive for archive in archives if archive.id not in answers}
    if not silent:
        return
    # an identifier that the applicant's own server minted is hardly in an Archive
    is_own = is_minted_at(identifier, applicant.host, applicant.ip)
    since = None if is_own else now - MAX_SILENCE
    suspects = database.read(
        lambda connection: _list_suspects(connection, silent, identifier, since)
    )
    suspects |= {archive.id for archive in silent.values() if archive.may_mint(identifier)}
    if suspects:
        raise DocumentRegistryError(
            "unavailable",
            f"{len(suspects)} of {len(archives)} Archives did not answer whether they have {ibi}; "
            "try again later, or send no identifier",
            RETRY_AFTER,
        )


def _find_holder(connection: Connection, ibi: str) -> str | None:
    """Return the service IBI of the registered Archive that has or had an identifier.

    :returns: the IBI of the Archive in the hint, or the identifier itself if the identifier is the
        IBI of a registered service. None if there is no such Archive.
    """
    holder: str | None = connection.scalar(
        select(RegisteredArchive.service_ibi)
        .outerjoin(Hint, and_(Hint.archive_id == RegisteredArchive.id, Hint.ibi == ibi))
        .where(or_(RegisteredArchive.service_ibi == ibi, Hint.ibi.is_not(None)))
        .limit(1)
    )
    return holder


def _list_suspects(
    connection: Connection, silent: Collection[int], ibi: Identifier, since: datetime | None
) -> set[int]:
    """Return the ids of the given Archives that may have an identifier.

    :param silent: the ids of the Archives that did not answer.
    :param since: Archives that have answered since this date may have any identifier. None: only
        Archives in which an identifier with the same prefix was found may have the identifier.
    """
    had_prefix = (
        select(Hint.ibi)
        .where(
            Hint.archive_id == RegisteredArchive.id,
            Hint.ibi.startswith(f"{ibi.prefix}/", autoescape=True),
        )
        .exists()
    )
    answered_at = func.coalesce(RegisteredArchive.last_answer_at, RegisteredArchive.included_at)
    conditions = [had_prefix] if since is None else [had_prefix, answered_at >= since]
    return set(
        connection.scalars(
            select(RegisteredArchive.id).where(RegisteredArchive.id.in_(silent), or_(*conditions))
        )
    )
