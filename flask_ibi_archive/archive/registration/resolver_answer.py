"""Read the answer of the resolver to an inclusion or exclusion request.

The answer is a status or an error. Each error contains a reason, and advice for the administrator
of the Archive.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime

from flask_ibi_archive.archive.transport import HttpResponse
from flask_ibi_archive.errors import (
    PeerProtocolError,
    ResolverError,
    ResolverFailed,
    ResolverRefused,
    TransportError,
)
from flask_ibi_archive.protocol.inclusion import (
    RegistrationStatus,
    parse_registration_answer,
)
from flask_ibi_archive.protocol.pairs import ALERT, parse_pairs

#: At most this number of bytes of an answer is read. (A status has fewer than 100 bytes.)
MAX_ANSWER = 65536
#: A message shows at most this number of characters of a text of the resolver.
MAX_SHOWN = 200

WRONG_URL = (
    "check whether IBI_RESOLVER_URL is the address of the resolver's service, "
    "such as http://urlib.net/J8LNKB5R7W/3FUQHC5"
)
LATER = "try again later"
REPORT = "tell the resolver's administrator"
CHECK_KEY = (
    "check whether IBI_REGISTRATION_KEY is the key that was registered for this Archive "
    "(flask ibi registration-email writes the e-mail that registers the key)"
)
#: The advice for each kind of TransportError.
ADVICE = {
    "name": f"{WRONG_URL}; check whether this server can reach the Internet",
    "unreachable": f"{WRONG_URL}; check whether this server can reach the Internet",
    "timeout": LATER,
    "tls": "check whether the certificate is valid for the host name in IBI_RESOLVER_URL",
    "cut off": f"the resolver may have carried out the request; you can safely {LATER}",
    "no http": WRONG_URL,
    "url": WRONG_URL,
    "encoding": REPORT,
}
_HTML = re.compile(rb"\s*<(!|html|head|body|\?xml)", re.IGNORECASE)


def read_answer(subject: str, url: str, answer: HttpResponse, now: datetime) -> RegistrationStatus:
    """Return the registration status that an answer contains.

    :param subject: the subject of the request: inclusion or exclusion.
    :param url: the URL of the resolver for messages, without a password.
    :raises ResolverRefused: if the resolver refuses the request.
    :raises ResolverFailed: if the answer is not valid.
    """
    status = answer.status
    if status == 403:
        raise _refusal(url, answer)
    if 300 <= status < 400:
        raise _redirect(url, answer)
    if status >= 400:
        raise _http_error(url, answer, now)
    if not answer.complete:
        raise ResolverFailed(
            url, f"sends more than {MAX_ANSWER} bytes instead of a status", WRONG_URL
        )
    if not answer.body.strip():
        raise ResolverFailed(
            url,
            "sends an empty answer; the resolver may not know the Archive or the key",
            CHECK_KEY,
        )
    try:
        return parse_registration_answer(subject, answer.body)
    except PeerProtocolError as error:
        reason = str(error)
    raise _not_a_status(url, answer, reason)


def explain_failure(url: str, error: TransportError) -> ResolverFailed:
    """Return the error for a request that got no complete answer."""
    return ResolverFailed(url, error.reason, ADVICE[error.kind], passing=error.passing)


def _refusal(url: str, answer: HttpResponse) -> ResolverError:
    alert = find_alert(answer.body)
    if alert:
        return ResolverRefused(url, f"refuses the request: {alert}", CHECK_KEY)
    if is_html(answer):
        advice = f"perhaps a firewall sent this page; {WRONG_URL}; {CHECK_KEY}"
        return ResolverRefused(url, "refuses the request (status 403) with an HTML page", advice)
    return ResolverRefused(url, "refuses the request (status 403) without a reason", CHECK_KEY)


def _redirect(url: str, answer: HttpResponse) -> ResolverFailed:
    # The query is removed, because it may contain the registration key of the request.
    place = one_line(answer.headers.get("location", "").partition("?")[0])
    if not place:
        return ResolverFailed(
            url, f"answers with a redirect (status {answer.status}) that has no target", WRONG_URL
        )
    return ResolverFailed(
        url,
        f"redirects to {place}, but redirects are not followed",
        "if this is the address of the resolver, set IBI_RESOLVER_URL to this address",
    )


def _http_error(url: str, answer: HttpResponse, now: datetime) -> ResolverFailed:
    status = answer.status
    alert = find_alert(answer.body)
    text = f"answers with status {status}{f' ({alert})' if alert else ''}"
    if status == 429 or status >= 500:
        wait = read_retry_after(answer.headers.get("retry-after", ""), now)
        return ResolverFailed(url, text, LATER, passing=True, retry_after=wait)
    advice = WRONG_URL if status in (404, 405, 410) or not alert else REPORT
    return ResolverFailed(url, text, advice)


def _not_a_status(url: str, answer: HttpResponse, reason: str) -> ResolverError:
    alert = find_alert(answer.body)
    if alert:
        return ResolverRefused(url, f"refuses the request: {alert}", CHECK_KEY)
    if is_html(answer):
        return ResolverFailed(url, "sends an HTML page instead of a status", WRONG_URL)
    if b"\0" in answer.body:
        return ResolverFailed(
            url,
            "sends bytes that are not ASCII text (perhaps UTF-16) instead of a status",
            REPORT,
        )
    shown = ascii(answer.text[:60])
    return ResolverFailed(url, f"answers {shown} instead of a status: {one_line(reason)}", REPORT)


def find_alert(body: bytes) -> str:
    """Return the alert (a message for readers) of an answer in one line, or "" if it has none."""
    try:
        return next((one_line(pair.text) for pair in parse_pairs(body) if pair.name == ALERT), "")
    except PeerProtocolError:
        return ""


def is_html(answer: HttpResponse) -> bool:
    """Return whether an answer is an HTML page."""
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind in ("text/html", "application/xhtml+xml") or bool(_HTML.match(answer.body))


def one_line(text: str) -> str:
    """Return a text of another server as one line, safe for terminals and databases."""
    readable = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    line = " ".join("".join(char if char.isprintable() else " " for char in readable).split())
    return line if len(line) <= MAX_SHOWN else f"{line[:MAX_SHOWN]}..."


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
