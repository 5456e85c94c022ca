"""The command ``failures``: lists the persistent URLs that failed, and reports them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import click

from flask_ibi_archive.core.identifiers import parse_identifier
from flask_ibi_archive.resolver.commands import get_resolver
from flask_ibi_archive.server.commands import group, terminal

if TYPE_CHECKING:
    from flask_ibi_archive.resolver.failures.report import Failure

#: The columns that the command ``failures`` prints.
COLUMNS = ("count", "reason", "identifier", "nearest", "archives")

_is_month = re.compile(r"[0-9]{4}-(?:0[1-9]|1[0-2])").fullmatch


def _parse_month(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> str | None:
    if value is not None and (not _is_month(value) or value.startswith("0000")):
        raise click.BadParameter(f"{value!r} is not a month such as 2026-11")
    return value


@click.command("failures")
@click.option(
    "--month",
    callback=_parse_month,
    metavar="YYYY-MM",
    help="The month. The default is the current month; with --send, the last month.",
)
@click.option(
    "--archive",
    type=group.read_ibi,
    metavar="SERVICEIBI",
    help="Only the failures of the identifiers that an Archive minted.",
)
@click.option("--send", is_flag=True, help="Send the e-mails of the month that were not sent yet.")
@click.option(
    "--mail",
    type=click.Choice(["on", "off"]),
    help="Send or do not send the monthly e-mail to the Archive of --archive.",
)
@group.json_option
def failures_command(
    month: str | None, archive: str | None, send: bool, mail: str | None, as_json: bool
) -> None:
    """List the persistent URLs that failed in a month.

    The command prints a header, then one line for each identifier and reason, the most frequent
    first. The columns are separated by tabs. The columns are: how often it failed, the kind of the
    failure, the identifier, the nearest known identifier if a typing error is likely, and the
    services of the Archives that minted it. If the identifier is a foreign one or a former address,
    these are the Archives that claim the nearest one. The line without an identifier counts what
    exceeds the number of lines of a day. Counts are kept for thirteen months.

    In the first days of a month, the process that reads the claims sends each Archive's
    administrator an e-mail about the last month, unless IBI_RESOLVER_FAILURE_MAIL is false. --send
    sends these e-mails at once.

    \b
    Example:
      flask --app example_app:create_resolver ibi-resolver failures --month 2026-11
      flask --app example_app:create_resolver ibi-resolver failures \\
        --archive dpi.inpe.br/banon/1999/01.09.22.14 --mail off
    """
    from flask_ibi_archive.resolver.failures import mails, report

    archive = None if archive is None else parse_identifier(archive).text

    resolver = get_resolver()
    terminal.standard_output()
    today = datetime.now(timezone.utc).date()
    if mail is not None:
        if archive is None:
            raise click.UsageError("--mail needs --archive SERVICEIBI")
        mails.set_reports(resolver, archive, mail == "on")
    elif send:
        month = month or report.find_last_month(today)
        if month >= report.find_month(today):  # what fails in its last days would not be reported
            raise click.BadParameter(f"{month} has not ended yet", param_hint="--month")
        for receiver in mails.send_reports(resolver, month, archive):
            terminal.write(f"{receiver.service_ibi}\t{receiver.email}")
    else:
        services = {record.id: record.service_ibi for record in resolver.registry.list()}
        rows = report.list_failures(
            resolver.database,
            resolver.claim_index,
            month or report.find_month(today),
            archive,
        )
        terminal.write_table(
            COLUMNS, [_list_values(row, services, as_json) for row in rows], as_json
        )


def _list_values(failure: Failure, services: Mapping[int, str], as_json: bool) -> dict[str, Any]:
    archives = sorted(services[archive_id] for archive_id in failure.archive_ids)
    return {
        "count": failure.count,
        "reason": failure.reason,
        "identifier": failure.ibi,
        "nearest": failure.nearest,
        "archives": archives if as_json else " ".join(archives),
    }
