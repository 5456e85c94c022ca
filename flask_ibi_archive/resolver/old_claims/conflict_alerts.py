"""Tells the administrators of both Archives about a conflict: a signal, a log line and an e-mail.

When items move, the claim of the new Archive may be read before that of the old one. Therefore a
conflict is told only after the logs of both Archives were read again, or after half a minute.

The signal is sent at most once: that it was sent is stored before. The e-mail is sent at least
once: that it was sent is stored afterwards, one e-mail at a time. A process that is killed in
between repeats one e-mail. If the mail server fails, the e-mail is tried again later.

Source: federation CF-1.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from email.message import EmailMessage
from itertools import groupby

from sqlalchemy import ColumnElement, Connection, and_, exists, or_, select, update

from flask_ibi_archive.errors import ConfigError
from flask_ibi_archive.resolver.config import ResolverConfig
from flask_ibi_archive.resolver.old_claims.conflicts import IS_OPEN, FoundConflict, list_conflicts
from flask_ibi_archive.resolver.old_claims.tables import Conflict, FollowedLog
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.dialects import is_one_of
from flask_ibi_archive.server.mail import compose_email, send_emails
from flask_ibi_archive.signals import Notice, Notifier, conflict_found

log = logging.getLogger(__name__)

#: The path of the list of conflicts. The path of a conflict continues with its number.
PATH = "/ibi/conflicts"
#: How long a conflict waits for the logs of both Archives to be read again.
WAIT = timedelta(seconds=30)
#: After a failure, an e-mail is tried again after this time.
RETRY = timedelta(minutes=5)
#: The seconds after which no further e-mail is sent in one call, so that the caller can go on.
MAX_SECONDS = 60.0
#: The maximum number of conflicts of one call, and of those that an e-mail lists.
MAX_CONFLICTS, MAX_LISTED = 10_000, 100

_TEXT_PT = """\
Dois Arquivos declaram ter o Original {of_items}. Um item tem um único Original; portanto, pelo
menos uma das duas declarações está errada. Isso acontece, por exemplo, quando um servidor foi
copiado, quando uma cópia de segurança entrou em serviço ao lado do servidor original, ou quando
uma mudança de itens não foi terminada.

Os dois Arquivos, cada um com o IBI do seu serviço:
{archives}

{label}:
{items}

O que fazer: combinem entre si qual dos dois Arquivos tem o Original. O outro passa a declarar o
item como Cópia, ou o exclui. O conflito termina sozinho assim que o resolvedor lê a nova
declaração. Até lá, as URLs persistentes levam ao item como antes; somente quem pede o Original
recebe um alerta. Esta mensagem não será repetida."""
_TEXT_EN = """\
Two Archives claim to have the Original {of_items}. An item has only one Original, so at least one
of the two claims is wrong. This happens, for example, if a server was copied, if a backup was put
into service beside the original server, or if a move of items was not finished.

The two Archives, each with the IBI of its service:
{archives}

{label}:
{items}

What to do: agree which of the two Archives has the Original. The other one makes its item a Copy,
or deletes it. The conflict ends by itself when the resolver reads the new claim. Until then, the
persistent URLs lead to the item as before; only readers who ask for the Original get an alert. This
message will not be repeated."""


def tell_administrators(
    database: Database, config: ResolverConfig, notifier: Notifier, now: datetime
) -> None:
    """Send what is still to be sent about open conflicts.

    The follower calls this function again and again, outside of a transaction. Conflicts of the
    same two Archives are in one e-mail to both. Failures of the mail server are logged.

    :param notifier: sends the signal conflict_found.
    :param now: the present time.
    :raises NotReady: if the database is not available.
    Source: federation CF-1.
    """
    is_new = Conflict.announced_at.is_(None)
    if database.read(lambda connection: list_conflicts(connection, IS_OPEN, is_new, limit=1)):
        with database.writing() as connection:
            _read_again(connection, now)
            announced = _find(connection, now, is_new)
            _set_time(connection, announced, "announced_at", now)
        for conflict in reversed(announced):
            _announce(config, notifier, conflict)
    if config.mail is not None:
        is_untold = and_(
            Conflict.told_at.is_(None),
            or_(Conflict.tried_at.is_(None), Conflict.tried_at <= now - RETRY),
        )
        if untold := database.read(lambda connection: _find(connection, now, is_untold)):
            with database.writing() as connection:
                _set_time(connection, untold, "tried_at", now)
            _send(database, config, untold, now)


def get_conflict_url(config: ResolverConfig, number: int) -> str | None:
    """Return the URL of the page of a conflict; None if SERVER_NAME is not set."""
    return None if config.base_url is None else f"{config.base_url}{PATH}/{number}"


#: The logs of the Archives of a conflict.
_OF_CONFLICT = FollowedLog.archive_id.in_((Conflict.first_archive_id, Conflict.second_archive_id))
#: The logs that were not read again since the conflict was found.
_UNREAD = and_(
    _OF_CONFLICT, or_(FollowedLog.read_at.is_(None), FollowedLog.read_at <= Conflict.found_at)
)


def _read_again(connection: Connection, now: datetime) -> None:
    """Ask the follower to read the logs of each new conflict again before their turn."""
    is_new = and_(Conflict.announced_at.is_(None), Conflict.ended_at.is_(None))
    connection.execute(
        update(FollowedLog)
        .where(FollowedLog.due_at.is_(None), exists(select(Conflict.id).where(is_new, _UNREAD)))
        .values(due_at=now)
    )


def _find(
    connection: Connection, now: datetime, condition: ColumnElement[bool]
) -> list[FoundConflict]:
    """Return the open conflicts that may be told and meet a condition."""
    may_be_told = or_(
        Conflict.found_at <= now - WAIT, ~exists(select(FollowedLog.archive_id).where(_UNREAD))
    )
    return list_conflicts(connection, IS_OPEN, may_be_told, condition, limit=MAX_CONFLICTS)


def _set_time(
    connection: Connection, conflicts: Iterable[FoundConflict], column: str, time: datetime | None
) -> None:
    ids = [conflict.id for conflict in conflicts]
    if ids:
        connection.execute(
            update(Conflict).where(is_one_of(Conflict.id, ids)).values({column: time})
        )


def _announce(config: ResolverConfig, notifier: Notifier, conflict: FoundConflict) -> None:
    """Log a conflict, and send its signal."""
    first, second = conflict.claimants
    url = get_conflict_url(config, conflict.id)
    log.warning(
        "%s (%s) and %s (%s) both claim the Original of %s; see %s",
        *(first.address, first.service_ibi, second.address, second.service_ibi, conflict.ibi),
        url or f"{PATH}/{conflict.id}",
    )
    values = {
        "conflict": conflict.id,
        "ibi": conflict.ibi,
        "archives": (first.service_ibi, second.service_ibi),
        "addresses": (first.address, second.address),
        "url": url,
    }
    notifier.send([Notice(conflict_found, values)])


def _send(
    database: Database, config: ResolverConfig, conflicts: Sequence[FoundConflict], now: datetime
) -> None:
    """Send an e-mail for each pair of Archives, and store when it was sent."""
    mail = config.mail
    assert mail is not None
    groups = list(_group(conflicts))
    end = time.monotonic() + MAX_SECONDS
    messages = (_compose(config, group) for group in groups)
    try:
        with closing(send_emails(mail, messages)) as results:
            for number, (group, reason) in enumerate(zip(groups, results, strict=False), 1):
                if reason:
                    text = "%s:%s %s; no e-mail about the conflict of %s was sent"
                    log.error(text, mail.server, mail.port, reason, group[0].ibi)
                else:
                    with database.writing() as connection:
                        _set_time(connection, group, "told_at", now)
                if time.monotonic() > end:
                    rest = [conflict for group in groups[number:] for conflict in group]
                    with database.writing() as connection:
                        _set_time(connection, rest, "tried_at", None)
                    return
    except ConfigError as error:
        log.error("no e-mail about a conflict can be sent: %s", error)


def _group(conflicts: Sequence[FoundConflict]) -> Iterator[list[FoundConflict]]:
    """Yield the conflicts of the same two Archives, the oldest first, if one has an address."""

    def get_pair(conflict: FoundConflict) -> tuple[int, int]:
        return conflict.claimants[0].id, conflict.claimants[1].id

    for _, group in groupby(sorted(conflicts, key=lambda one: (get_pair(one), one.id)), get_pair):
        found = list(group)
        if any(claimant.email for claimant in found[0].claimants):
            yield found


def _compose(config: ResolverConfig, conflicts: Sequence[FoundConflict]) -> EmailMessage:
    """Return the e-mail about the conflicts of two Archives, to both administrators.

    :raises ConfigError: if the address of the sender is not configured or not valid.
    """
    claimants, count = conflicts[0].claimants, len(conflicts)
    archives = "\n".join(f"  {one.address or '?'}  ({one.service_ibi})" for one in claimants)
    items = "\n".join(_list_items(config, conflicts[:MAX_LISTED]))
    more, single = count - MAX_LISTED, count == 1
    tail_pt, tail_en = "", ""
    if more > 0:
        page = f"{config.base_url or ''}{PATH}"
        tail_pt, tail_en = f"\n  e mais {more}: {page}", f"\n  and {more} more: {page}"
    body = "\n\n--\n\n".join(
        (
            _TEXT_PT.format(
                of_items="de um item" if single else f"de {count} itens",
                label="Identificador (IBI) e página do conflito",
                archives=archives,
                items=items + tail_pt,
            ),
            _TEXT_EN.format(
                of_items="of an item" if single else f"of {count} items",
                label="Identifier (IBI) and page of the conflict",
                archives=archives,
                items=items + tail_en,
            ),
        )
    )
    what = conflicts[0].ibi if single else f"{count} IBI"
    recipients = ", ".join(dict.fromkeys(one.email for one in claimants if one.email))
    sender = ("IBI_RESOLVER_EMAIL", config.email)
    subject = (
        f"Conflito: dois Arquivos, um Original / Conflict: two Archives, one Original ({what})"
    )
    return compose_email(config.mail, sender, recipients, subject, body)


def _list_items(config: ResolverConfig, conflicts: Sequence[FoundConflict]) -> Iterator[str]:
    for conflict in conflicts:
        url = get_conflict_url(config, conflict.id)
        names = " = ".join(filter(None, (conflict.ibi, conflict.other_ibi)))
        yield f"  {names}" if url is None else f"  {names}  {url}"
