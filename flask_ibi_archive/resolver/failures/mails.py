"""The monthly e-mails to the administrators of Archives about the failures of their identifiers."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import Connection, select

from flask_ibi_archive.core.resolution.outcome import AlertKind
from flask_ibi_archive.errors import IBIError, MailError, StorageError
from flask_ibi_archive.resolver.claims.tables import FailureReport
from flask_ibi_archive.resolver.failures.report import Failure, find_last_month, list_failures
from flask_ibi_archive.resolver.tables import RegisteredArchive
from flask_ibi_archive.server.database.dialects import insert_or_update
from flask_ibi_archive.server.mail import compose_email, send_email

if TYPE_CHECKING:
    from flask_ibi_archive.resolver.service import ResolverService

#: The reports of a month are sent on the first days of the next month.
DAYS = 5
#: The maximum number of failures in an e-mail.
MAX_FAILURES = 50
#: Stands for the month of the last report if an administrator gets no reports.
NEVER = "never"

_SUBJECT = "URLs persistentes que falharam em {month} / Persistent URLs that failed in {month}"
_BODY = """\
Em {month}, o resolvedor {resolver}não pôde levar leitores aos itens destes identificadores,
que foram atribuídos pelo Arquivo {service} ou se parecem com os dele.

In {month}, the resolver {resolver}could not lead readers to the items of these identifiers,
which were minted by the Archive {service} or are similar to its identifiers.

{table}

O que fazer / What to do:

{advice}

Este e-mail é enviado uma vez por mês, se algo falhou. O administrador do resolvedor pode desligá-lo
para este Arquivo.
This e-mail is sent once a month if something failed. The administrator of the resolver can switch
it off for this Archive."""
_MEANT = "({nearest} ?)"
_ADVICE = {
    AlertKind.UNKNOWN: (
        "nenhum Arquivo tem o item. Corrija as páginas que citam o identificador errado. Se o"
        " identificador está certo, restaure o item.",
        "no Archive has the item. Correct the pages that cite a wrong identifier. If the identifier"
        " is right, restore the item.",
    ),
    AlertKind.MALFORMED: (
        "o endereço tem um erro de digitação. Corrija as páginas que o citam.",
        "the address has a typing error. Correct the pages that cite it.",
    ),
    AlertKind.MISSING: (
        "o item não tem o que foi pedido, como uma tradução, um arquivo ou o Original.",
        "the item does not have what was requested, such as a translation, a file or the Original.",
    ),
    AlertKind.REMOVED: (
        "o item foi removido, e o leitor vê por quê. Nada a fazer, se isso está certo.",
        "the item was removed, and the reader sees why. Nothing to do, if this is right.",
    ),
    AlertKind.SUSPECTS: (
        "mais de um Arquivo declara ter o Original. Combine com o outro qual deles o tem.",
        "more than one Archive claims the Original. Agree with the other which of them has it.",
    ),
    AlertKind.SILENT: (
        "um Arquivo não respondeu a tempo. Verifique o servidor.",
        "an Archive did not answer in time. Check the server.",
    ),
    AlertKind.LOOP: (
        "os registros dos itens remetem uns aos outros em círculo. Corrija edições e traduções.",
        "the records of the items refer to each other in a circle. Correct editions and"
        " translations.",
    ),
    AlertKind.TOO_LONG: (
        "a cadeia de itens é longa demais. Corrija edições e traduções.",
        "the chain of items is too long. Correct editions and translations.",
    ),
}

_logger = logging.getLogger(__name__)


class Receiver(NamedTuple):
    """An included Archive whose administrator has an e-mail address."""

    id: int
    service_ibi: str
    email: str


def send_monthly_reports(service: ResolverService, now: datetime) -> int:
    """Send the reports of the last month that are due, and return their number.

    Each Archive gets a report of each month at most once, however many processes call this. Outside
    of the first days of a month, and if all reports were sent, nothing happens. Otherwise the
    function may take minutes. An e-mail that the server does not accept is tried again at the next
    call, so the function should be called about once an hour. Errors are logged.
    """
    config = service.config
    if not config.failure_mail or config.mail is None or now.day > DAYS:
        return 0
    try:
        return sum(1 for _ in send_reports(service, find_last_month(now.date())))
    except IBIError as error:
        _logger.warning("the reports about failed persistent URLs can't be sent: %s", error)
        return 0


def send_reports(
    service: ResolverService, month: str, service_ibi: str | None = None
) -> Iterator[Receiver]:
    """Send the reports of a month that were not sent, and yield their receivers.

    An Archive without failures gets no e-mail. Three e-mails that fail in a row end the function.

    :param month: such as ``2026-11``.
    :param service_ibi: sends only to the Archive with this service, in canonical case.
    :raises ConfigError: if no mail server is configured.
    :raises MailError: if the mail server does not accept e-mails.
    :raises NotReady: if the database does not answer.
    """
    receivers = [
        receiver
        for receiver in service.database.read(lambda connection: _list_due(connection, month))
        if service_ibi in (None, receiver.service_ibi)
    ]
    if not receivers:
        return
    failures = list_failures(service.database, service.claim_index, month)
    errors = 0
    for receiver in receivers:
        own = [failure for failure in failures if receiver.id in failure.archive_ids]
        earlier = _claim(service, receiver, month)
        if earlier is None or not own:
            continue
        try:
            _send(service, receiver, month, own)
        except IBIError as error:
            _release(service, receiver, month, earlier)
            errors += 1
            if errors == 3 or not isinstance(error, MailError):
                raise
            _logger.warning("the report for %s can't be sent: %s", receiver.service_ibi, error)
        else:
            errors = 0
            yield receiver


def set_reports(service: ResolverService, service_ibi: str, are_sent: bool) -> None:
    """Set whether the administrator of an Archive gets reports.

    :raises StorageError: if the Archive is not registered.
    """
    with service.database.writing() as connection:
        archive_id = connection.scalar(
            select(RegisteredArchive.id).where(RegisteredArchive.service_ibi == service_ibi)
        )
        if archive_id is None:
            raise StorageError(f"no Archive with the service {service_ibi} is registered")
        _store(connection, archive_id, "" if are_sent else NEVER)


def _list_due(connection: Connection, month: str) -> list[Receiver]:
    """Return the receivers of the reports of a month that were not sent."""
    table, report = RegisteredArchive, FailureReport
    rows = connection.execute(
        select(table.id, table.service_ibi, table.admin_email)
        .outerjoin(report, report.archive_id == table.id)
        .where(table.included_at.is_not(None), table.admin_email != "")
        # NEVER is greater than all months
        .where((report.month < month) | report.month.is_(None))
        .order_by(table.id)
    )
    return [Receiver(row.id, row.service_ibi, row.admin_email) for row in rows]


def _claim(service: ResolverService, receiver: Receiver, month: str) -> str | None:
    """Store that the report was sent, before it is sent: it must never be sent twice.

    :returns: the month of the report before it; None if another process has sent the report.
    """
    with service.database.writing() as connection:
        # the row of the Archive is locked, so that two processes do not claim at the same time
        connection.execute(
            select(RegisteredArchive.id)
            .where(RegisteredArchive.id == receiver.id)
            .with_for_update(key_share=True)
        )
        stored = select(FailureReport.month).where(FailureReport.archive_id == receiver.id)
        earlier = connection.scalar(stored) or ""
        if earlier >= month:
            return None
        _store(connection, receiver.id, month)
    return earlier


def _release(service: ResolverService, receiver: Receiver, month: str, earlier: str) -> None:
    with service.database.writing() as connection:
        _store(connection, receiver.id, earlier)


def _store(connection: Connection, archive_id: int, month: str) -> None:
    statement = insert_or_update(connection, FailureReport).values(
        archive_id=archive_id, month=month
    )
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=[FailureReport.archive_id], set_={"month": month}
        )
    )


def _send(
    service: ResolverService, receiver: Receiver, month: str, failures: Sequence[Failure]
) -> None:
    config = service.config
    subject, body = compose_report(receiver.service_ibi, month, failures, config.base_url)
    admin = ("IBI_RESOLVER_EMAIL", config.email)
    send_email(config.mail, compose_email(config.mail, admin, receiver.email, subject, body))


def compose_report(
    service_ibi: str, month: str, failures: Sequence[Failure], resolver_url: str | None = None
) -> tuple[str, str]:
    """Return the subject and the body of a report.

    :param failures: the failures of the Archive, the most frequent first.
    """
    shown = failures[:MAX_FAILURES]
    width = len(str(shown[0].count))
    lines = [
        f"{failure.count:{width}}  {failure.reason:9}  {failure.ibi}"
        + (f"  {_MEANT.format(nearest=failure.nearest)}" if failure.nearest else "")
        for failure in shown
    ]
    reasons = {failure.reason for failure in shown}
    advice = [
        f"{kind.value}: {portuguese}\n{kind.value}: {english}"
        for kind, (portuguese, english) in _ADVICE.items()
        if kind.value in reasons
    ]
    resolver = f"{resolver_url} " if resolver_url else ""
    body = _BODY.format(
        month=month,
        resolver=resolver,
        service=service_ibi,
        table="\n".join(lines),
        advice="\n\n".join(advice),
    )
    return _SUBJECT.format(month=month), body
