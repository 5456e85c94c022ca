"""Register an Archive with a resolver ([R] 5.2): the requests, the answers and the stored state.

First the administrator sends an e-mail with a registration key to the resolver. Then the Archive
sends an inclusion request. After the inclusion, the resolver asks the Archive about items. After an
exclusion request, the resolver does not ask the Archive any more; the Archive stays registered.

Each request contains the registration key ([R] 5.1), which no message shows. A request can be
repeated at any time: the resolver may have carried out a request whose answer was lost.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from flask_ibi_archive import errors
from flask_ibi_archive.archive.items.served_archives import forget_inclusions
from flask_ibi_archive.archive.items.tables import ArchiveRow, Registration
from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol import inclusion
from flask_ibi_archive.core.protocol.messages import format_request
from flask_ibi_archive.errors import translatable as _
from flask_ibi_archive.server.config import TRIAL_PREFIX, ArchiveConfig
from flask_ibi_archive.server.database.dialects import insert_or_update
from flask_ibi_archive.server.http import transport

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive

#: The timeout in seconds for an answer. Before the answer, the resolver calls the Archive back.
ANSWER_TIMEOUT = 20
#: The largest number of bytes of an answer that are read. (A status has fewer than 100 bytes.)
MAX_ANSWER = 65536

# the states of a registration
NEVER = _("not registered")
INCLUDED = _("included")
NOT_CONFIRMED = _("included, not confirmed")
EXCLUDED = _("excluded")

INCLUDE = _("run: flask ibi register-archive")
#: What to do if another Archive mints with the same prefix.
CHANGE_PORT = f"set IBI_MINT_PORT of one of the two to another port, restart it, and {INCLUDE}"
LATER = "try again later"
REPORT = "tell the resolver's administrator"
CHECK_URL = (
    "check whether IBI_RESOLVER_URL is the address of the resolver's service, such as "
    f"{inclusion.RESOLVER_URL}"
)
CHECK_KEY = (
    "check whether IBI_REGISTRATION_KEY is the key that was registered for this Archive "
    "(flask ibi registration-email writes the e-mail that registers the key)"
)
CHECK_INTERNET = f"{CHECK_URL}; check whether this server can reach the Internet"
#: The advice for each kind of :class:`~flask_ibi_archive.errors.TransportError`.
ADVICE = {
    "name": CHECK_INTERNET,
    "unreachable": CHECK_INTERNET,
    "timeout": LATER,
    "tls": "check whether the certificate is valid for the host name in IBI_RESOLVER_URL",
    "cut off": f"the resolver may have carried out the request; you can safely {LATER}",
    "no http": CHECK_URL,
    "url": CHECK_URL,
    "encoding": REPORT,
}


# --- the requests --------------------------------------------------------------------------------


def registration_email(archive: Archive) -> tuple[str, str]:
    """Return the subject and the body of the e-mail that requests registration with a resolver.

    :raises ConfigError: if IBI_REGISTRATION_KEY is not set.
    :raises NotReady: if the Archive does not exist yet.
    Source: [R] 5.1, Example 5.1.
    """
    key = _require_key(archive.config)
    return inclusion.build_registration_email(parse_identifier(archive.served().service_ibi), key)


def send_request(
    archive: Archive, subject: str, *, moved: bool = False
) -> inclusion.RegistrationStatus:
    """Request the inclusion or the exclusion of the Archive, and store the result.

    :param subject: the subject of the request: inclusion or exclusion.
    :param moved: True if the Archive has moved to another address or IP. Then the settings may
        differ from the registered address and IP.
    :returns: the status in the answer of the resolver.
    :raises ConfigError: if a setting is missing. No request was sent.
    :raises RegistrationError: if the address or the IP differs from the registered one. No request
        was sent.
    :raises ResolverError: if the resolver refuses the request, cannot be reached, or sends an
        answer that is not valid.
    :raises NotReady: if the Archive does not exist yet, or the database does not answer.
    Source: [R] 5.2, Examples 5.2 and 5.3.
    """
    config, request = archive.config, build_request(archive, subject)
    row = read_registration(archive)
    difference = None if row is None or moved else find_move(row, config)
    if difference is not None:
        raise difference
    outcome = _send(config, request)
    archive_id = archive.served().id
    with archive.database.writing() as connection:
        store_outcome(connection, archive_id, config, subject, outcome, archive.clock())
    # it is not raised in an except clause, whose error could contain the key
    if isinstance(outcome, errors.ResolverError):
        raise outcome
    archive.notifier.send_registration(
        "archive",
        outcome.confirmed if subject == inclusion.INCLUSION_REQUEST else None,
        request.service_ibi.text,
        request.address,
        shown_url(config),
    )
    return outcome


def build_request(archive: Archive, subject: str) -> inclusion.RegistrationRequest:
    """Return an inclusion or exclusion request with the values of the settings.

    :raises ConfigError: if a setting is missing. The error names the first missing setting.
    :raises NotReady: if the Archive does not exist yet.
    """
    config, further, service_ibi = archive.config, {}, archive.served().service_ibi
    if subject == inclusion.INCLUSION_REQUEST:
        further["database"] = archive.served().database
        with suppress(errors.ConfigError):  # an Archive that can't mint has no prefixes
            further["mints"] = " ".join(config.check_minting())
        if any(ibi.startswith(TRIAL_PREFIX) for ibi in (service_ibi, further.get("mints", ""))):
            raise errors.RegistrationError(
                "the Archive is a trial on one computer, whose identifiers others have, too; set "
                "IBI_ARCHIVE_ADDRESS and IBI_ARCHIVE_IP, and begin with a new database"
            )
    ip = "the Archive's IPv4 or IPv6 address, such as 150.163.34.243"
    email = "the e-mail address of the Archive's administrator, such as banon@dpi.inpe.br"
    return inclusion.RegistrationRequest(
        subject=subject,
        key=_require_key(config),
        ip=_require(config.archive_ip, "IBI_ARCHIVE_IP", ip),
        admin_email=_require(config.archive_admin_email, "IBI_ARCHIVE_ADMIN_EMAIL", email),
        address=config.archive_address,
        service_ibi=parse_identifier(service_ibi),
        platform_version=config.archive_platform_version,
        **further,
    )


def _require_key(config: ArchiveConfig) -> str:
    expected = "a registration key; flask ibi generate-key prints a random registration key"
    return _require(config.registration_key, "IBI_REGISTRATION_KEY", expected)


def _require(value: str | None, key: str, expected: str) -> str:
    if value is None:
        raise errors.ConfigError(key, None, expected)
    return value


def _send(
    config: ArchiveConfig, request: inclusion.RegistrationRequest
) -> inclusion.RegistrationStatus | errors.ResolverError:
    """Send a request; return the status in the answer, or the error (which is not raised)."""
    url = shown_url(config)
    try:
        answer = transport.fetch(
            config.resolver_url,
            inclusion.format_registration_request(request),
            seconds=ANSWER_TIMEOUT,
            limit=MAX_ANSWER,
            inner_hosts=None,
        )
        # a resolver may repeat the request, which contains the key, in its answer
        body = answer.body.replace(request.key.encode(), b"***")
        headers = {name: text.replace(request.key, "***") for name, text in answer.headers.items()}
        return read_answer(request.subject, url, replace(answer, body=body, headers=headers))
    except errors.TransportError as error:
        return errors.ResolverError(url, error.reason, ADVICE[error.kind])
    except errors.ResolverError as error:
        return error


def read_answer(
    subject: str, url: str, answer: transport.HttpResponse
) -> inclusion.RegistrationStatus:
    """Return the registration status that an answer of the resolver contains.

    :param subject: the subject of the request: inclusion or exclusion.
    :param url: the URL of the resolver without a password.
    :raises ResolverError: if the resolver refuses the request, or if the answer is not valid.
    """
    status, alert = answer.status, transport.find_alert(answer.body)
    is_html = answer.body.lstrip().startswith(b"<")
    reason = ""
    if status < 300 and answer.complete and answer.body.strip():
        try:
            return inclusion.parse_registration_answer(subject, answer.body)
        except errors.PeerProtocolError as error:
            reason = transport.make_printable(str(error))
    if status == 403 or (reason and alert):
        raise _refuse(url, alert, is_html)
    if 300 <= status < 400:
        # the query is removed, because it may contain the registration key of the request
        target = answer.headers.get("location", "").partition("?")[0]
        reason = f"redirects to {transport.make_printable(target)!r}, which is not followed"
        advice = "if this is the address of the resolver, set IBI_RESOLVER_URL to this address"
    elif status >= 400:
        reason = f"answers with status {status}{f' ({alert})' if alert else ''}"
        advice = CHECK_URL if status in (404, 405, 410) or not alert else REPORT
        advice = LATER if status == 429 or status >= 500 else advice
    elif not answer.complete:
        reason = f"sends more than {MAX_ANSWER} bytes instead of a status"
        advice = CHECK_URL
    elif not reason:
        reason = "sends an empty answer; the resolver may not know the Archive or the key"
        advice = CHECK_KEY
    elif is_html:
        reason, advice = "sends an HTML page instead of a status", CHECK_URL
    else:
        reason = f"answers {answer.text[:60]!a} instead of a status: {reason}"
        advice = REPORT
    raise errors.ResolverError(url, reason, advice)


def _refuse(url: str, alert: str, is_html: bool) -> errors.ResolverError:
    """Return the error for a request that the resolver, or a firewall, has refused.

    :param alert: the reason in the answer.
    :param is_html: whether the answer is a page, which a firewall may have sent.
    """
    reason, advice = "refuses the request (status 403) without a reason", CHECK_KEY
    if alert:
        reason = f"refuses the request: {alert}"
    elif is_html:
        reason = "refuses the request (status 403) with an HTML page"
        advice = f"perhaps a firewall sent this page; {CHECK_URL}; {CHECK_KEY}"
    return errors.ResolverError(url, reason, advice, is_refusal=True)


def call_own_address(archive: Archive, seconds: float) -> str:
    """Send a confirmation request to the Archive's own address; return the URL of the service.

    :param seconds: the timeout for the whole answer.
    :raises TransportError: if no answer arrives in time.
    :raises RegistrationError: if the answer does not come from an Archive.
    """
    url = archive.addresses.service(archive.served())
    query = format_request(inclusion.InclusionConfirmationRequest())
    answer = transport.fetch(url, query, seconds=seconds, limit=MAX_ANSWER, inner_hosts=None)
    if answer.text != inclusion.CONFIRMATION:
        raise errors.RegistrationError(
            f"{url} answers {answer.status} {answer.text[:60]!a} instead of "
            f"{inclusion.CONFIRMATION!r}"
        )
    return url


# --- the stored state ----------------------------------------------------------------------------


def read_registration(archive: Archive) -> sa.Row[Any] | None:
    """Return the row of the registration; None if the Archive has never sent a request.

    :raises NotReady: if the database does not answer, or the Archive does not exist yet.
    """
    archive_id = archive.served().id
    return archive.database.read(lambda connection: _find(connection, archive_id))


def _find(connection: sa.Connection, archive_id: int) -> sa.Row[Any] | None:
    table = Registration.__table__
    return connection.execute(sa.select(table).where(table.c.archive_id == archive_id)).first()


def store_outcome(
    connection: sa.Connection,
    archive_id: int,
    config: ArchiveConfig,
    subject: str,
    outcome: inclusion.RegistrationStatus | errors.ResolverError,
    now: datetime,
) -> None:
    """Store the result of a request: the registration after a status, or else only the error.

    An excluded Archive is still registered ([R] 5.2). The time of the registration changes only if
    the Archive uses another resolver. The time of the inclusion also changes if the Archive was
    excluded before.
    """
    # locked until the transaction ends
    connection.execute(sa.select(ArchiveRow.id).filter_by(id=archive_id).with_for_update())
    before, url = _find(connection, archive_id), shown_url(config)
    values: dict[str, Any]
    if isinstance(outcome, errors.ResolverError):
        known = url if before is None else before.resolver_url
        values = {"resolver_url": known, "error": str(outcome), "error_at": now}
    else:
        included = subject == inclusion.INCLUSION_REQUEST
        same = before if before is not None and before.resolver_url == url else None
        values = {
            "resolver_url": url,
            "address": config.archive_address,
            "ip": config.archive_ip,
            "registered_at": getattr(same, "registered_at", None) or now,
            "included_at": (getattr(same, "included_at", None) or now) if included else None,
            "confirmed_at": now if included and outcome.confirmed else None,
            "excluded_at": None if included else now,
            "error": None,
            "error_at": None,
        }
    statement = insert_or_update(connection, Registration).values(archive_id=archive_id, **values)
    connection.execute(
        statement.on_conflict_do_update(index_elements=[Registration.archive_id], set_=values)
    )
    forget_inclusions()


def find_state(row: sa.Row[Any] | None) -> tuple[str, datetime | None]:
    """Return the registration state, and the time when this state began.

    :param row: the row of the registration; None if there is none.
    :returns: the state in words. The time is None if the Archive was never registered.
    """
    if row is None or row.registered_at is None:
        return NEVER, None
    if row.included_at is None:
        return EXCLUDED, row.excluded_at
    return INCLUDED if row.confirmed_at else NOT_CONFIRMED, row.included_at


def describe(row: sa.Row[Any] | None, config: ArchiveConfig) -> tuple[bool, str]:
    """Describe the registration, and what the administrator must do next, in one line.

    :returns: first, False if the administrator must do something. Second, the line. An Archive that
        was never registered, or that is excluded, needs nothing: the administrator may have
        intended this.
    """
    state, since = find_state(row)
    text = state
    if since is not None:
        text = _("{state} since {time}", state=state, time=format_timestamp(since))
    if row is not None:
        if row.error_at is not None:
            failed_at = format_timestamp(row.error_at)
            problem = _("{text}; the last request failed at {time}: {error}")
            return False, _(problem, text=text, time=failed_at, error=row.error)
        if moved := find_move(row, config):
            return False, f"{text}; {moved}"
        if row.resolver_url != shown_url(config):
            other = f"by {row.resolver_url}, but IBI_RESOLVER_URL is {shown_url(config)}"
            return state == EXCLUDED, f"{text} {other}; {INCLUDE}"
    next_steps: dict[str, str] = {
        INCLUDED: _("{text}, and confirmed"),
        EXCLUDED: _("{text}; to include the Archive again, {run}"),
        NOT_CONFIRMED: "{text}{advice}",
        NEVER: _("{text} yet; to get a registration key, run: flask ibi generate-key")
        if config.registration_key is None
        else _(
            "{text} yet; send the e-mail that flask ibi registration-email writes; after the "
            "resolver has confirmed the e-mail, {run}"
        ),
    }
    values = {"text": text, "run": INCLUDE, "advice": not_confirmed(config)}
    return state != NOT_CONFIRMED, errors._(next_steps[state], **values)


def not_confirmed(config: ArchiveConfig) -> str:
    """Return advice for an Archive that is included, but that the resolver could not call back."""
    return _(
        "; the resolver got no confirmation from {address}; check whether the server runs and "
        "whether other hosts can reach this address, then {run}",
        **{"address": config.archive_address, "run": INCLUDE},
    )


def find_move(row: sa.Row[Any], config: ArchiveConfig) -> errors.RegistrationError | None:
    """Return an error if the address or the IP in the settings is not the registered one.

    :returns: None if both are equal.
    """
    for key, value, registered in (
        ("IBI_ARCHIVE_ADDRESS", config.archive_address, row.address),
        ("IBI_ARCHIVE_IP", config.archive_ip, row.ip),
    ):
        if value and registered and value.lower() != registered.lower():
            return errors.RegistrationError(
                f"{key} is {value}, but the Archive is registered at {registered}; if the Archive "
                "has moved, use --moved; if this database is a copy, do not register this Archive"
            )
    return None


def shown_url(config: ArchiveConfig) -> str:
    """Return the resolver's URL without user and password, for messages."""
    return transport.without_password(config.resolver_url)
