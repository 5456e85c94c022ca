"""Checks of a resolver: configuration, mail, database, Archives, claims, conflicts, address."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pycurl
from sqlalchemy import select

from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.errors import TransportError
from flask_ibi_archive.resolver.archives import Archive, find_clashes
from flask_ibi_archive.resolver.claims import list_followed, list_refused
from flask_ibi_archive.resolver.conflicts import IS_OPEN, list_conflicts
from flask_ibi_archive.resolver.resolving import ResolverService
from flask_ibi_archive.resolver.tables import ResolverState
from flask_ibi_archive.server.commands.group import (
    MAX_ANSWER,
    TIMEOUT,
    CheckFailed,
    Finding,
    run_check,
)
from flask_ibi_archive.server.http.transport import fetch
from flask_ibi_archive.server.mail import compose_email


def check_resolver(resolver: ResolverService) -> Iterator[Finding]:
    """Check a resolver and yield the result of each check."""
    yield run_check("configuration", lambda: _check_configuration(resolver))
    yield run_check("mail", lambda: _check_mail(resolver))
    yield run_check("pycurl", lambda: pycurl.version)
    database = run_check("database", lambda: _check_database(resolver))
    yield database
    if database.ok:
        yield run_check("archives", lambda: _check_archives(resolver))
        for clash in find_clashes(resolver.database):
            yield Finding("prefixes", False, f"{clash}; one must change its IBI_MINT_PORT")
        yield from _check_claims(resolver)
        yield run_check("conflicts", lambda: _check_conflicts(resolver))
    yield run_check("address", lambda: _check_address(resolver))


def _check_configuration(resolver: ResolverService) -> str:
    if resolver.config.service_url is None:
        return (
            f"the service is {resolver.config.service_ibi}; set SERVER_NAME to the host of the "
            "resolver; init and e-mails then show the address of the service"
        )
    return f"the service is {resolver.config.service_url}"


def _check_mail(resolver: ResolverService) -> str:
    mail = resolver.config.mail
    if mail is None:
        return "MAIL_SERVER is not set, so no administrator is told of conflicts and clashes"
    compose_email(mail, ("IBI_RESOLVER_EMAIL", resolver.config.email), "", "", "")
    return f"e-mails are sent by {mail.server}:{mail.port}"


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


def _check_claims(resolver: ResolverService) -> Iterator[Finding]:
    """Yield a finding about the reading of claims, and one for each Archive with wrong claims."""
    now, max_age = datetime.now(timezone.utc), timedelta(seconds=resolver.config.claims_max_age)
    archives = [
        archive
        for archive in resolver.database.read(
            lambda connection: list_followed(connection, now, max_age)
        )
        if archive["state"] != "excluded"
    ]
    if not archives:
        text = "no included Archive publishes claims; each Archive is asked about each item"
        yield Finding("claims", True, text)
        return
    counts = Counter(archive["state"] for archive in archives)
    text = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    [(followed_at,)] = resolver.database.read_rows(select(ResolverState.followed_at))
    if followed_at is None or now - followed_at > max_age:
        since = "never" if followed_at is None else f"last on {format_timestamp(followed_at)}"
        text += (
            f"; the claims were read {since}, so each Archive is asked about each item; run: flask "
            "ibi-resolver follow; or set IBI_RESOLVER_FOLLOW = True"
        )
        # a new resolver works without a follower, but one that has stopped is a fault
        is_new = followed_at is None
        yield Finding("claims", is_new, text, is_warning=is_new)
        return
    yield Finding("claims", True, text)
    refused = resolver.database.read(list_refused)
    for archive in archives:
        if archive["state"] in ("contradicted", "refused", "stale"):
            yield Finding("claims", False, _explain_distrust(archive, refused))


def _explain_distrust(archive: dict[str, Any], refused: list[dict[str, Any]]) -> str:
    """Return why the claims of an Archive do not count, and what to do."""
    service, reason, advice = archive["service"], archive["reason"] or "was not read lately", ""
    if archive["state"] == "refused":
        lines = [line for line in refused if line["service"] == service]
        reason = f"sent claims that are refused ({len(lines)}): {lines[0]['reason']}"
        advice = "; to list all, run: flask ibi-resolver claims --refused"
    elif archive["state"] == "contradicted":
        advice = f"; when it is repaired, run: flask ibi-resolver follow --again {service}"
    return f"{service} is asked about each item, because it {reason}{advice}"


def _check_conflicts(resolver: ResolverService) -> str:
    count = len(resolver.database.read(lambda connection: list_conflicts(connection, IS_OPEN)))
    if count:
        raise CheckFailed(f"{count} open; to list them, run: flask ibi-resolver conflicts")
    return "no conflict is open"


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
