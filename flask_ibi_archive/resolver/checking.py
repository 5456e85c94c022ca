"""Checks of a resolver: its configuration, pycurl, database, Archives, claims and address."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timezone

import pycurl
from sqlalchemy import select

from flask_ibi_archive.errors import TransportError
from flask_ibi_archive.resolver.archives import Archive, find_clashes
from flask_ibi_archive.resolver.old_claims.log_lists import list_logs
from flask_ibi_archive.resolver.old_claims.tables import CONTRADICTED, FORKED, ResolverState
from flask_ibi_archive.resolver.service import ResolverService
from flask_ibi_archive.server.commands.group import (
    MAX_ANSWER,
    TIMEOUT,
    CheckFailed,
    Finding,
    run_check,
)
from flask_ibi_archive.server.database.database import check_writable_folder
from flask_ibi_archive.server.http.transport import fetch


def check_resolver(resolver: ResolverService) -> Iterator[Finding]:
    """Check a resolver and yield the result of each check."""
    yield run_check("configuration", lambda: _check_configuration(resolver))
    yield run_check("pycurl", lambda: pycurl.version)
    database = run_check("database", lambda: _check_database(resolver))
    yield database
    if database.ok:
        yield run_check("archives", lambda: _check_archives(resolver))
        for clash in find_clashes(resolver.database):
            yield Finding("prefixes", False, f"{clash}; one must change its IBI_MINT_PORT")
        yield run_check("claims", lambda: _check_claims(resolver))
    else:
        for name, what in (("archives", "the Archives are"), ("claims", "the claims are")):
            yield Finding(name, False, f"{what} not checked, because the database check failed")
    yield run_check("address", lambda: _check_address(resolver))


def _check_configuration(resolver: ResolverService) -> str:
    if resolver.config.service_url is None:
        return (
            f"the service is {resolver.config.service_ibi}; set SERVER_NAME to the host of the "
            "resolver; init and e-mails then show the address of the service"
        )
    return f"the service is {resolver.config.service_url}"


def _check_database(resolver: ResolverService) -> str:
    resolver.database.check()
    return "the tables are up to date"


def _check_archives(resolver: ResolverService) -> str:
    archives = resolver.registry.list()
    states = Counter(archive.state[0] for archive in archives)
    counts = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    included = [archive for archive in archives if archive.included_at is not None]
    failing = [archive for archive in included if _failed_last(archive)]
    if not failing:
        return counts or "no Archive is registered yet; run: flask ibi-resolver register SERVICEIBI"
    failure = f"{failing[0].address} {failing[0].last_failure}"
    # if only some Archives fail, the resolver is probably not the cause
    if len(failing) == len(included):
        raise CheckFailed(f"{counts}; no included Archive answered the last request: {failure}")
    return (
        f"{counts}; {len(failing)} of the included Archives did not answer the last request: "
        f"{failure}"
    )


def _failed_last(archive: Archive) -> bool:
    """Return whether the last failure of an Archive is later than its last answer."""
    failed, answered = archive.last_failure_at, archive.last_answer_at
    return failed is not None and (answered is None or answered < failed)


def _check_claims(resolver: ResolverService) -> str:
    check_writable_folder(
        "the claims of Archives", resolver.config.claims_folder, "IBI_RESOLVER_CLAIMS_FOLDER"
    )
    resolver.claim_index.check()
    logs = [log for log in resolver.database.read(list_logs) if log.is_included]
    if not logs:
        return "no included Archive publishes claims; each Archive is asked about each item"
    counts = Counter(log.state for log in logs)
    text = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    [(followed_at,)] = resolver.database.read_rows(select(ResolverState.followed_at))
    age = None if followed_at is None else datetime.now(timezone.utc) - followed_at
    if age is None or age.total_seconds() > resolver.config.claims_max_age:
        since = "never" if age is None else f"for {age.total_seconds():.0f} s not"
        raise CheckFailed(
            f"{text}; the claims were {since} followed, so each Archive is asked about each item; "
            "run: flask ibi-resolver follow; or set IBI_RESOLVER_FOLLOW = True"
        )
    wrong = [log for log in logs if log.state in (FORKED, CONTRADICTED)]
    if wrong:
        raise CheckFailed(
            f"{text}; {wrong[0].service_ibi} {wrong[0].reason}; to list all, run: flask "
            "ibi-resolver claims"
        )
    return text


def _check_address(resolver: ResolverService) -> str:
    if resolver.config.base_url is None:
        return "the address is not checked, because SERVER_NAME is not set"
    url = f"{resolver.config.base_url}/ibi-resolver/health/live"
    try:
        answer = fetch(url, seconds=TIMEOUT, limit=MAX_ANSWER, inner_hosts=None)
    except TransportError as error:
        raise CheckFailed(
            f"{error}; check that SERVER_NAME is correct and the server is running"
        ) from error
    if answer.status != 200:
        raise CheckFailed(
            f"{url} answers with status {answer.status} instead of 200; "
            "the address may belong to another program"
        )
    return f"{url} answers"
