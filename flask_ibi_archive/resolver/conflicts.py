"""Conflicts between Archives: how they are found in claims, told, shown and ended (CF-1).

Another subject is the alert with status 409, if answers of Archives contradict each other:
:mod:`flask_ibi_archive.core.resolution.choice`.

Two Archives conflict about a name that both claim if

- the name is an identifier in both claims, and both claim the Original; or
- the name is an alias in one of the claims, such as a former address, neither item is Deleted, and
  the claims are about different items: items without a common identifier.

Two Archives have only one conflict about an item, even if the item has two identifiers. The
follower looks for conflicts in the transaction that stores claims. A conflict ends in three ways:
one of the two claims changes; one of the two Archives is excluded (until it is included again); or
the administrator of the resolver prefers one of the claims. The preferred claim then comes first
until one of the two claims changes.

Two Archives that mint identifiers with the same prefix have a clash, which is not a conflict: see
the module ``archives``.

**Telling.** When items move, the claim of the new Archive may be read before the new claim of the
old Archive. Therefore a conflict is told only after a time in which the claims of both Archives are
read again. The signal is sent at most once: the time is stored before the signal is sent. The
e-mail is sent at least once: the time is stored after the e-mail was sent.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from flask import Response, request
from sqlalchemy.orm import aliased

from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.errors import NotReady, StorageError
from flask_ibi_archive.resolver.archives import Archive, list_archives, send_to_administrators
from flask_ibi_archive.resolver.config import ResolverConfig
from flask_ibi_archive.resolver.tables import ClaimedName, Conflict, RegisteredArchive
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.dialects import is_listed, is_one_of
from flask_ibi_archive.server.web import responses
from flask_ibi_archive.server.web.alerts import CONFLICTS, VARY, unready_response
from flask_ibi_archive.server.web.requests import current_resolver, read_query, request_root
from flask_ibi_archive.signals import Notice, Notifier, conflict_found

log: logging.Logger = logging.getLogger(__name__)

# --- finding and ending --------------------------------------------------------------------------

#: The numbers of :class:`.tables.ClaimedName`.
_IBIP, _ALIAS = 2, 3
_ORIGINAL, _DELETED = 1, 3


def _is_same_item(one: Any, other: Any) -> sa.ColumnElement[bool]:
    """Return the SQL condition that two rows are claims of one Archive about the same item."""
    return sa.and_(
        one.archive_id == other.archive_id, one.reading == other.reading, one.item == other.item
    )


def _select_rivals() -> Any:
    """Return a SELECT of *rivals*: claims of other Archives that contradict those of an Archive."""
    own, rival = aliased(ClaimedName, name="own"), aliased(ClaimedName, name="rival")
    shared, same = aliased(ClaimedName, name="shared"), aliased(ClaimedName, name="same")
    shares_identifier = sa.exists(
        sa.select(shared.name)
        .join(same, same.name == shared.name)
        .where(
            *(_is_same_item(shared, own), shared.kind < _ALIAS),
            *(_is_same_item(same, rival), same.kind < _ALIAS),
        )
    )
    is_alias = sa.or_(own.kind == _ALIAS, rival.kind == _ALIAS)
    return (
        sa.select(
            own.name,
            own.kind,
            own.item,
            rival.archive_id,
            rival.item.label("rival_item"),
            is_alias.label("is_alias"),
            own.since.label("own_since"),
            rival.since.label("rival_since"),
        )
        .join(rival, sa.and_(rival.name == own.name, rival.archive_id != own.archive_id))
        .where(
            own.archive_id == sa.bindparam("archive"),
            is_listed(own.name, "names"),
            # the item has not lost the name; SQLite would search for ">" with the wrong index
            *(own.reading != 0, rival.reading != 0),
            sa.or_(
                sa.and_(sa.not_(is_alias), own.state == _ORIGINAL, rival.state == _ORIGINAL),
                sa.and_(
                    is_alias,
                    own.state < _DELETED,
                    rival.state < _DELETED,
                    sa.not_(shares_identifier),
                ),
            ),
        )
        .order_by(own.name)
    )


_RIVALS = _select_rivals()


def _select_known() -> Any:
    """Return a SELECT of the conflicts about some names that are open or were decided."""
    archive: sa.ColumnElement[int] = sa.bindparam("archive")
    first, second = Conflict.first_archive_id, Conflict.second_archive_id
    return (
        sa.select(
            *(Conflict.id, Conflict.name, Conflict.other_name, Conflict.ended_at),
            sa.case((first == archive, second), else_=first).label("rival"),
        )
        .where(
            sa.or_(is_listed(Conflict.name, "names"), is_listed(Conflict.other_name, "names")),
            sa.or_(first == archive, second == archive),
            sa.or_(Conflict.ended_at.is_(None), Conflict.preferred_id.is_not(None)),
        )
        .order_by(Conflict.id)  # the open one of two Archives is the last
    )


_KNOWN = _select_known()


def update_conflicts(
    connection: sa.Connection, archive_id: int, names: Iterable[str], now: datetime
) -> None:
    """Store the new conflicts of an Archive, and end the conflicts that no longer exist.

    The follower calls this function after it has stored claims, in the same transaction.

    :param archive_id: the Archive whose claims were read.
    :param names: the names that the claims of the Archive have gained, changed or lost, as
        :func:`.fold_name` writes them. If the claim of an item has changed, these are all names of
        the item.
    Source: federation CF-1.
    """
    names = {*names}
    known = connection.execute(_KNOWN, {"archive": archive_id, "names": names}).all()
    # of a conflict about two identifiers, one alone may have changed
    compared = {*names, *(name for one in known for name in (one.name, one.other_name) if name)}
    rivals = connection.execute(_RIVALS, {"archive": archive_id, "names": compared}).all()
    current = {(row.archive_id, row.name) for row in rivals}
    decided: dict[tuple[int, str], datetime | None] = {}
    ended = []
    for one in known:
        pairs = [(one.rival, name) for name in (one.name, one.other_name) if name is not None]
        if one.ended_at is None and current.isdisjoint(pairs):
            ended.append(one.id)
        else:
            decided.update(dict.fromkeys(pairs, one.ended_at))
    if ended:
        connection.execute(
            sa.update(Conflict).where(is_one_of(Conflict.id, ended)).values(ended_at=now)
        )
    new = []
    for rows in _group_rivals(rivals):
        if not any(_is_known(row, decided) for row in rows):
            first, second = sorted((archive_id, rows[0].archive_id))
            new.append(
                {
                    "name": rows[0].name,
                    "other_name": rows[1].name if len(rows) > 1 else None,
                    "is_alias": bool(rows[0].is_alias),
                    "first_archive_id": first,
                    "second_archive_id": second,
                    "found_at": now,
                }
            )
    if new:
        connection.execute(sa.insert(Conflict), new)


def _group_rivals(rivals: Iterable[Any]) -> Iterable[Sequence[Any]]:
    """Group rivals by conflict: one for each alias, and one for each item; the IBIp is first."""
    groups: dict[Any, list[Any]] = {}
    for row in sorted(rivals, key=lambda row: row.kind != _IBIP):
        about = row.name if row.is_alias else (row.item, row.rival_item)
        groups.setdefault((row.archive_id, about), []).append(row)
    return groups.values()


def _is_known(row: Any, known: Mapping[tuple[int, str], datetime | None]) -> bool:
    """Return whether a conflict is already stored: it is open, or it was decided.

    A decided conflict counts only if both claims are still the same as at the decision.

    :param row: a row of :func:`_select_rivals`.
    :param known: the times of the decisions, by the id of the rival and the name. The time is None
        for an open conflict.
    """
    key = row.archive_id, row.name
    ended_at = known.get(key)
    return key in known and (ended_at is None or max(row.own_since, row.rival_since) <= ended_at)


def prefer_archive(connection: sa.Connection, archive_id: int, name: str, now: datetime) -> int:
    """Prefer an Archive in the conflicts about a name: end them, and return how many they were.

    The claim of this Archive then comes before the claim of the other Archive, for all names of the
    item.

    :param name: the name, as :func:`.fold_name` writes it.
    :raises StorageError: if there is no such conflict, or if the state of the other claim has
        precedence.
    Source: federation CF-1, CL-8a.
    """
    has_name = sa.or_(Conflict.name == name, Conflict.other_name == name)
    is_ours = sa.or_(
        Conflict.first_archive_id == archive_id, Conflict.second_archive_id == archive_id
    )
    found = list_conflicts(connection, IS_OPEN, has_name, is_ours)
    if not found:
        raise StorageError(f"the Archive has no open conflict about {show_name(name)}")
    return sum(_prefer(connection, archive_id, conflict, now) for conflict in found)


def _prefer(
    connection: sa.Connection, archive_id: int, conflict: FoundConflict, now: datetime
) -> int:
    """End the conflicts of two Archives about an item; return the number of conflicts."""
    [rival] = [one.id for one in conflict.claimants if one.id != archive_id]
    # one of two identifiers may be claimed no longer
    is_claimed = ClaimedName.reading > 0, ClaimedName.name.in_((conflict.name, conflict.other_name))
    own = connection.execute(
        sa.select(ClaimedName.reading, ClaimedName.item, ClaimedName.state)
        .where(ClaimedName.archive_id == archive_id, *is_claimed)
        .limit(1)
    ).one()
    is_own = sa.and_(
        ClaimedName.archive_id == archive_id,
        *(ClaimedName.reading == own.reading, ClaimedName.item == own.item),
    )
    names = sa.select(ClaimedName.name).where(is_own)
    theirs = aliased(ClaimedName)
    first: Any = connection.execute(
        sa.select(
            sa.func.min(theirs.state), sa.func.min(theirs.since, type_=theirs.since.type)
        ).where(*(theirs.archive_id == rival, theirs.reading > 0, theirs.name.in_(names)))
    ).one()
    if own.state > first[0]:
        raise StorageError(
            "the Archive claims a Copy, and the other one the Original, which always comes first"
        )
    connection.execute(
        sa.update(ClaimedName)
        .where(is_own, ClaimedName.since >= first[1])
        .values(since=first[1] - timedelta(microseconds=1))
    )
    pair = sorted((archive_id, rival))
    is_theirs = Conflict.first_archive_id == pair[0], Conflict.second_archive_id == pair[1]
    has_name = sa.or_(Conflict.name.in_(names), Conflict.other_name.in_(names))
    return connection.execute(
        sa.update(Conflict)
        .where(Conflict.ended_at.is_(None), *is_theirs, has_name)
        .values(ended_at=now, preferred_id=archive_id)
    ).rowcount


# --- reading -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FoundConflict:
    """A conflict with the two Archives. The fields are the columns with the same names.

    :param ended_at: when the conflict ended; this may be the time when an Archive was excluded.
    :param claimants: the two Archives, in the order of their ids.
    """

    id: int
    name: str
    other_name: str | None
    is_alias: bool
    found_at: datetime
    ended_at: datetime | None
    preferred_id: int | None
    tried_at: datetime | None
    told_at: datetime | None
    claimants: tuple[Archive, Archive]


_first, _second = aliased(RegisteredArchive), aliased(RegisteredArchive)
#: The conditions of :func:`list_conflicts` for open and for ended conflicts.
IS_OPEN = sa.and_(
    Conflict.ended_at.is_(None), _first.excluded_at.is_(None), _second.excluded_at.is_(None)
)
IS_ENDED = sa.not_(IS_OPEN)
_ENDED_AT = sa.func.coalesce(Conflict.ended_at, _first.excluded_at, _second.excluded_at)
_CONFLICTS = (
    sa.select(
        *(Conflict.id, Conflict.name, Conflict.other_name, Conflict.is_alias, Conflict.found_at),
        *(_ENDED_AT, Conflict.preferred_id, Conflict.tried_at, Conflict.told_at),
        *(Conflict.first_archive_id, Conflict.second_archive_id),
    )
    .join(_first, _first.id == Conflict.first_archive_id)
    .join(_second, _second.id == Conflict.second_archive_id)
    # an Archive that was excluded before conflicts with nobody yet
    .where(sa.or_(IS_OPEN, Conflict.found_at <= _ENDED_AT))
)


def list_conflicts(
    connection: sa.Connection, *conditions: sa.ColumnElement[bool], limit: int | None = None
) -> list[FoundConflict]:
    """Return the conflicts that meet some conditions, the newest first.

    :param limit: the maximum number of conflicts. None for all.
    """
    statement = _CONFLICTS.where(*conditions).order_by(Conflict.id.desc()).limit(limit)
    rows: Sequence[Any] = connection.execute(statement).all()
    ids = {key for row in rows for key in row[-2:]}
    archives = list_archives(connection, is_one_of(RegisteredArchive.id, ids)) if rows else []
    known = {archive.id: archive for archive in archives}
    return [FoundConflict(*(*row[:-2], (known[row[-2]], known[row[-1]]))) for row in rows]


def find_open_conflict(database: Database, name: str) -> int | None:
    """Return the number of the newest open conflict about a name; None if none is known.

    :param name: an identifier or alias, as :func:`.fold_name` writes it.
    """
    has_name = sa.or_(Conflict.name == name, Conflict.other_name == name)
    try:
        found = database.read(
            lambda connection: list_conflicts(connection, IS_OPEN, has_name, limit=1)
        )
    except NotReady:  # the alert is right without the number
        return None
    return found[0].id if found else None


def show_name(name: str) -> str:
    """Convert a name of :func:`.fold_name` to the spelling that readers know."""
    return f"http://{name[4:]}" if name.startswith("url:") else name


# --- telling -------------------------------------------------------------------------------------

#: A conflict waits until Archives that answer were read again: for so many intervals of reading.
WAIT = 2
#: After a failure, an e-mail is tried again after this time.
RETRY = timedelta(minutes=5)
#: The maximum number of conflicts of one call, and of those that an e-mail lists.
MAX_CONFLICTS, MAX_LISTED = 10_000, 100

_SUBJECT = "Conflito entre dois Arquivos / Conflict between two Archives"
_TEXT = """\
Dois Arquivos fazem declarações que se contradizem. Um item tem um único Original, e um alias (um
endereço antigo, um DOI ou outro identificador) pertence a um único item. Portanto, uma das duas
declarações está errada, por exemplo porque um servidor foi copiado, ou porque uma mudança de itens
não foi terminada. Combinem qual delas: esse Arquivo passa o seu item a Cópia, o exclui, ou retira o
alias. O conflito termina quando o resolvedor lê a nova declaração. Até lá, as URLs persistentes
levam aos itens como antes, e só quem pede o Original recebe um alerta.

Two Archives make claims that contradict each other. An item has only one Original, and an alias (a
former address, a DOI or another identifier) belongs to only one item. Therefore one of the two
claims is wrong, for example because a server was copied, or because a move of items was not
finished. Agree which one it is: this Archive makes its item a Copy, deletes it, or removes the
alias. The conflict ends when the resolver reads the new claim. Until then, persistent URLs lead to
the items as before, and only readers who ask for the Original get an alert.

Arquivos / Archives:
{archives}

Conflitos / Conflicts ({count}):
{conflicts}"""

_IS_NEW = Conflict.tried_at.is_(None)


def tell_administrators(
    database: Database, config: ResolverConfig, notifier: Notifier, now: datetime
) -> None:
    """Send the signals and e-mails about open conflicts that were not sent yet.

    The follower calls this function again and again, outside of a transaction. Conflicts of the
    same two Archives are in one e-mail to both. Failures of the mail server are logged.

    :param notifier: sends the signal conflict_found.
    :param now: the present time.
    :raises NotReady: if the database is not available.
    Source: federation CF-1.
    """
    is_due: sa.ColumnElement[bool] = _IS_NEW
    if config.mail is not None:
        is_due = sa.or_(
            _IS_NEW, sa.and_(Conflict.told_at.is_(None), Conflict.tried_at <= now - RETRY)
        )
    waits = timedelta(seconds=WAIT * config.claims_interval)
    conditions = IS_OPEN, is_due, Conflict.found_at <= now - waits
    if not database.read(lambda connection: list_conflicts(connection, *conditions, limit=1)):
        return
    with database.writing() as connection:
        due = list_conflicts(connection, *conditions, limit=MAX_CONFLICTS)[::-1]
        _set_time(connection, due, "tried_at", now)
    for conflict in due:
        if conflict.tried_at is None:
            _announce(config, notifier, conflict)
    groups: dict[tuple[Archive, Archive], list[FoundConflict]] = {}
    for conflict in due if config.mail is not None else ():
        groups.setdefault(conflict.claimants, []).append(conflict)
    for group in groups.values():
        if _send(config, group):
            with database.writing() as connection:
                _set_time(connection, group, "told_at", now)


def _set_time(
    connection: sa.Connection, conflicts: Iterable[FoundConflict], column: str, now: datetime
) -> None:
    ids = [conflict.id for conflict in conflicts]
    connection.execute(sa.update(Conflict).where(is_one_of(Conflict.id, ids)).values({column: now}))


def _announce(config: ResolverConfig, notifier: Notifier, conflict: FoundConflict) -> None:
    """Log a conflict, and send its signal."""
    first, second = conflict.claimants
    url = None if config.base_url is None else f"{config.base_url}{CONFLICTS}/{conflict.id}"
    log.warning(
        "%s (%s) and %s (%s) both claim %s; see %s",
        *(first.address, first.service_ibi, second.address, second.service_ibi),
        *(_describe(conflict), url or f"{CONFLICTS}/{conflict.id}"),
    )
    values = {
        "conflict": conflict.id,
        "name": show_name(conflict.name),
        "archives": (first.service_ibi, second.service_ibi),
        "addresses": (first.address, second.address),
        "url": url,
    }
    notifier.send([Notice(conflict_found, values)])


def _describe(conflict: FoundConflict) -> str:
    names = " = ".join(map(show_name, filter(None, (conflict.name, conflict.other_name))))
    return f"{'alias' if conflict.is_alias else 'Original'} {names}"


def _send(config: ResolverConfig, conflicts: Sequence[FoundConflict]) -> bool:
    """Send an e-mail to the administrators of two Archives, and return whether it was accepted."""
    claimants, page = conflicts[0].claimants, f"{config.base_url or ''}{CONFLICTS}"
    # the Archive itself sent admin_email; email came from the resolver's administrator
    recipients = dict.fromkeys(filter(None, (one.admin_email or one.email for one in claimants)))
    lines = [f"  {_describe(one)}  {page}/{one.id}" for one in conflicts[:MAX_LISTED]]
    if len(conflicts) > MAX_LISTED:
        lines.append(f"  +{len(conflicts) - MAX_LISTED}  {page}")
    text = _TEXT.format(
        archives="\n".join(f"  {one.address}  ({one.service_ibi})" for one in claimants),
        count=len(conflicts),
        conflicts="\n".join(lines),
    )
    what = f"two Archives claim {_describe(conflicts[0])}"
    return send_to_administrators(config, recipients, _SUBJECT, text, what)


# --- pages ---------------------------------------------------------------------------------------

#: The maximum number of conflicts on a page. The command lists all.
MAX_SHOWN = 1000
#: The choices of conflicts, with their conditions. The first one is the default.
CHOICES: Mapping[str, tuple[Any, ...]] = {"open": (IS_OPEN,), "ended": (IS_ENDED,), "all": ()}
FORMATS = ("html", "json")


def describe_conflict(conflict: FoundConflict) -> dict[str, Any]:
    """Return a conflict as a JSON object, without the e-mail addresses of the administrators."""
    services = {one.id: one.service_ibi for one in conflict.claimants}
    return {
        "id": conflict.id,
        "name": show_name(conflict.name),
        "other_name": conflict.other_name,
        "about": "alias" if conflict.is_alias else "Original",
        "state": "open" if conflict.ended_at is None else "ended",
        "found_at": format_timestamp(conflict.found_at),
        "ended_at": format_timestamp(conflict.ended_at),
        "preferred": services.get(conflict.preferred_id or 0),
        "told_at": format_timestamp(conflict.told_at),
        "archives": [
            {"service": one.service_ibi, "address": one.address} for one in conflict.claimants
        ],
    }


def show_conflicts(number: int | None = None) -> Response:
    """Show the newest conflicts, ``?state=open|ended|all``, or one; ``?format=html|json``.

    :param number: the id of the only conflict to show.
    """
    values = read_query()
    accepted = request.accept_mimetypes.best_match(["text/html", "application/json"])
    format = values.get("format", "json" if accepted == "application/json" else "html")
    choice = values.get("state", "open")
    if format not in FORMATS or choice not in CHOICES:
        expected = "state=open|ended|all, format=html|json"
        return responses.error_response(400, f"the query is wrong; it may contain {expected}")
    conditions = CHOICES[choice] if number is None else (Conflict.id == number,)
    try:
        found = current_resolver().database.read(
            lambda connection: list_conflicts(connection, *conditions, limit=MAX_SHOWN)
        )
    except NotReady as error:
        return unready_response(error)
    if number is not None and not found:
        return responses.error_response(404, "there is no conflict with this number")
    if format == "json":
        listed = [describe_conflict(conflict) for conflict in found]
        return _json_response({"conflicts": listed} if number is None else listed[0])
    if number is None:
        return _page("conflicts", choice=choice, conflicts=found)
    base = current_resolver().config.base_url or f"{request.scheme}://{request.host}"
    return _page("conflict", conflict=found[0], base=base + request_root())


def _page(template: str, **values: Any) -> Response:
    root = request_root()
    response = responses.render_page(
        template,
        root=root,
        conflicts_path=f"{root}{CONFLICTS}",
        iso_moment=format_timestamp,
        show_name=show_name,
        **values,
    )
    response.headers["Vary"] = VARY
    return response


def _json_response(value: object) -> Response:
    text = json.dumps(value, ensure_ascii=False, indent=2) + "\n"
    response = Response(text, content_type="application/json; charset=utf-8")
    response.headers["Vary"] = VARY
    responses.allow_origins(response)
    return responses.make_conditional(responses.set_headers(response, private=False))
