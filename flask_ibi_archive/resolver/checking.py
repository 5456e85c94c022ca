"""Checks that a resolver works and can be reached."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pycurl

from flask_ibi_archive.archive.checking import MAX_ANSWER, TIMEOUT, CheckFailed, Finding, look
from flask_ibi_archive.archive.transport import fetch
from flask_ibi_archive.errors import TransportError
from flask_ibi_archive.resolver.archive_rows import RegisteredRecord
from flask_ibi_archive.resolver.registry import state_of
from flask_ibi_archive.resolver.service import ResolverService


def check_resolver(resolver: ResolverService) -> Iterator[Finding]:
    """Yield what was found of the configuration, pycurl, the database, the Archives and the
    address.
    """
    yield look("configuration", lambda: _check_configuration(resolver))
    yield look("pycurl", _check_pycurl)
    database = look("database", lambda: _check_database(resolver))
    yield database
    if database.ok:
        yield look("archives", lambda: _check_archives(resolver))
    else:
        yield Finding("archives", False, "not known: they are stored in the database")
    yield look("address", lambda: _check_address(resolver))


def _check_configuration(resolver: ResolverService) -> str:
    if resolver.config.service_url is None:
        return (
            f"the service is {resolver.config.service_ibi}; set SERVER_NAME to the resolver's host for init "
            "and e-mails to show its address"
        )
    return f"the service is {resolver.config.service_url}"


def _check_pycurl() -> str:
    return pycurl.version


def _check_database(resolver: ResolverService) -> str:
    resolver.database.check()
    return "up to date"


def _check_archives(resolver: ResolverService) -> str:
    records = resolver.registry.list()
    states = Counter(state_of(record)[0] for record in records)
    counts = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    included = [record for record in records if record.included_at is not None]
    failing = [record for record in included if _failed_last(record)]
    if not failing:
        return counts or "none is registered yet; run: flask ibi-resolver register SERVICEIBI"
    failure = f"{failing[0].address} {failing[0].last_failure}"
    # one that fails may have a problem of its own
    if len(failing) == len(included):
        raise CheckFailed(f"{counts}; none of them answered last time: {failure}")
    return f"{counts}; {len(failing)} of them did not answer last time: {failure}"


def _failed_last(record: RegisteredRecord) -> bool:
    """Return whether an Archive has failed since its last answer."""
    failed, answered = record.last_failure_at, record.last_answer_at
    return failed is not None and (answered is None or answered < failed)


def _check_address(resolver: ResolverService) -> str:
    if resolver.config.base_url is None:
        return "not tried: SERVER_NAME is not set"
    url = f"{resolver.config.base_url}/ibi-resolver/health/live"
    try:
        answer = fetch(url, seconds=TIMEOUT, limit=MAX_ANSWER, inner_hosts=None)
    except TransportError as error:
        raise CheckFailed(f"{error}; see that SERVER_NAME is right and the server runs") from error
    if answer.status != 200:
        raise CheckFailed(
            f"{url} answers with status {answer.status} instead of 200; another program may be at that "
            "address"
        )
    return f"{url} answers"
