"""Read the answer of the resolver to an inclusion or exclusion request.

The answer is a status or an error. Each error contains a reason, and advice for the administrator
of the Archive.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime

from flask_ibi_archive.core.protocol.inclusion import RegistrationStatus, parse_registration_answer
from flask_ibi_archive.errors import (
    PeerProtocolError,
    ResolverError,
    TransportError,
)
from flask_ibi_archive.server.http.transport import HttpResponse, find_alert, make_printable

#: The largest number of bytes of an answer that are read. (A status has fewer than 100 bytes.)
MAX_ANSWER = 65536

LATER = "try again later"
REPORT = "tell the resolver's administrator"
CHECK_URL = (
    "check whether IBI_RESOLVER_URL is the address of the resolver's service, such as "
    "http://urlib.net/J8LNKB5R7W/3FUQHC5"
)
CHECK_KEY = (
    "check whether IBI_REGISTRATION_KEY is the key that was registered for this Archive "
    "(flask ibi registration-email writes the e-mail that registers the key)"
)
_HTML = re.compile(rb"\s*<(!|html|head|body|\?xml)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of the resolver, and the errors of requests to it.

    :param url: the URL without a password.
    """

    url: str

    def explain_failure(self, error: TransportError) -> ResolverError:
        """Return the error for a request that got no complete answer."""
        unreachable = f"{CHECK_URL}; check whether this server can reach the Internet"
        advice = {
            "name": unreachable,
            "unreachable": unreachable,
            "timeout": LATER,
            "tls": "check whether the certificate is valid for the host name in IBI_RESOLVER_URL",
            "cut off": f"the resolver may have carried out the request; you can safely {LATER}",
            "no http": CHECK_URL,
            "url": CHECK_URL,
            "encoding": REPORT,
        }
        return ResolverError(self.url, error.reason, advice[error.kind], passing=error.passing)

    def explain_redirect(self, answer: HttpResponse) -> ResolverError:
        """Return the error for a redirect."""
        # The query is removed, because it may contain the registration key of the request.
        target = make_printable(answer.headers.get("location", "").partition("?")[0])
        if not target:
            reason = f"answers with a redirect (status {answer.status}) that has no target"
            return ResolverError(self.url, reason, CHECK_URL)
        return ResolverError(
            self.url,
            f"redirects to {target}, but redirects are not followed",
            "if this is the address of the resolver, set IBI_RESOLVER_URL to this address",
        )

    def explain_status(self, answer: HttpResponse, now: datetime) -> ResolverError:
        """Return the error for an answer with an HTTP status of 400 or more."""
        status = answer.status
        alert = find_alert(answer.body)
        text = f"answers with status {status}{f' ({alert})' if alert else ''}"
        if status == 429 or status >= 500:
            wait = read_retry_after(answer.headers.get("retry-after", ""), now)
            return ResolverError(self.url, text, LATER, passing=True, retry_after=wait)
        advice = CHECK_URL if status in (404, 405, 410) or not alert else REPORT
        return ResolverError(self.url, text, advice)

    def explain_size(self) -> ResolverError:
        """Return the error for an answer that is too long."""
        reason = f"sends more than {MAX_ANSWER} bytes instead of a status"
        return ResolverError(self.url, reason, CHECK_URL)

    def explain_text(self, answer: HttpResponse, reason: str) -> ResolverError:
        """Return the error for an answer that cannot be parsed.

        :param reason: the message of the parser.
        """
        if is_html(answer):
            reason = "sends an HTML page instead of a status"
            return ResolverError(self.url, reason, CHECK_URL)
        if b"\0" in answer.body:
            reason = "sends bytes that are not ASCII text (perhaps UTF-16) instead of a status"
            return ResolverError(self.url, reason, REPORT)
        shown = ascii(answer.text[:60])
        return ResolverError(
            self.url,
            f"answers {shown} instead of a status: {make_printable(reason)}",
            REPORT,
        )


def read_answer(
    subject: str, endpoint: Endpoint, answer: HttpResponse, now: datetime
) -> RegistrationStatus:
    """Return the registration status that an answer contains.

    :param subject: the subject of the request: inclusion or exclusion.
    :raises ResolverError: if the resolver refuses the request, or if the answer is not valid.
    """
    status = answer.status
    if status == 403:
        raise _refusal(endpoint, answer)
    if 300 <= status < 400:
        raise endpoint.explain_redirect(answer)
    if status >= 400:
        raise endpoint.explain_status(answer, now)
    if not answer.complete:
        raise endpoint.explain_size()
    if not answer.body.strip():
        raise ResolverError(
            endpoint.url,
            "sends an empty answer; the resolver may not know the Archive or the key",
            CHECK_KEY,
        )
    try:
        return parse_registration_answer(subject, answer.body)
    except PeerProtocolError as error:
        reason = str(error)
    alert = find_alert(answer.body)
    if alert:
        raise ResolverError(
            endpoint.url, f"refuses the request: {alert}", CHECK_KEY, is_refusal=True
        )
    raise endpoint.explain_text(answer, reason)


def _refusal(endpoint: Endpoint, answer: HttpResponse) -> ResolverError:
    alert = find_alert(answer.body)
    reason, advice = "refuses the request (status 403) without a reason", CHECK_KEY
    if alert:
        reason = f"refuses the request: {alert}"
    elif is_html(answer):
        advice = f"perhaps a firewall sent this page; {CHECK_URL}; {CHECK_KEY}"
        reason = "refuses the request (status 403) with an HTML page"
    return ResolverError(endpoint.url, reason, advice, is_refusal=True)


def is_html(answer: HttpResponse) -> bool:
    """Return whether an answer is an HTML page."""
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind in ("text/html", "application/xhtml+xml") or bool(_HTML.match(answer.body))


def read_retry_after(text: str, now: datetime) -> float | None:
    """Return the delay in seconds that a Retry-After header asks for; None if it is not valid.

    :param text: the value of the header: a number of seconds or a date.
    """
    if text.isascii() and text.strip().isdigit():
        return float(text.strip()[:9])
    try:
        moment = parsedate_to_datetime(text)
    except (TypeError, ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return max((moment - now).total_seconds(), 0.0)
