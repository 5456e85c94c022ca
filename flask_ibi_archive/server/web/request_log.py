"""Log one line for each message, persistent URL and former link that an app answers.

Requests for other pages, also those of the host, are not logged. The logger has no handler of its
own: the host decides whether lines are written, where, and in which format. The values are in the
message and, for formatters, in attributes of the record. No value is secret or about a person.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from logging import INFO, getLogger
from time import perf_counter
from typing import ParamSpec, TypeVar
from uuid import uuid4

from flask import Response, request

from flask_ibi_archive.core.protocol import inclusion, messages
from flask_ibi_archive.core.protocol.pairs import SERVICE_SUBJECT
from flask_ibi_archive.server.web.requests import read_query

P = ParamSpec("P")
R = TypeVar("R")

log = getLogger("flask_ibi_archive.requests")
LINE = "request_id=%(request_id)s kind=%(kind)s status=%(status)d duration=%(duration).4f"

#: The kind of a message is its subject, unless no service knows the subject.
MESSAGE, UNKNOWN = "message", "unknown"
SUBJECTS = {*messages.SUBJECTS, *inclusion.RESULTS, inclusion.CLASH_REQUEST[1]}
PERSISTENT_URL, FORMER_LINK, REGISTRY = "persistentUrl", "formerLink", "documentRegistry"

#: The keys of the start and the kind of a request in its WSGI environment.
STARTED, KIND = "ibi.started", "ibi.kind"
#: A header without dots and colons contains no IP address, and a line of it stays one line.
_REQUEST_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def start() -> None:
    """Note the time when the current request arrived, unless nothing is logged."""
    if log.isEnabledFor(INFO):
        request.environ[STARTED] = perf_counter()


def logged(kind: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function that answers requests, so that each request that it answers is logged.

    The function returns None for a request that it does not answer.

    :param kind: the kind of these requests in the log.
    """

    def decorate(answer: Callable[P, R]) -> Callable[P, R]:
        @wraps(answer)
        def answer_as_kind(*arguments: P.args, **options: P.kwargs) -> R:
            request.environ[KIND] = kind  # before the call, which may raise an exception
            response = answer(*arguments, **options)
            if response is None:
                request.environ.pop(KIND, None)
            return response

        return answer_as_kind

    return decorate


def finish(response: Response) -> None:
    """Log the current request, if a function with the decorator :func:`logged` has answered it."""
    environ = request.environ
    if STARTED not in environ or KIND not in environ:
        return
    kind, sent = environ[KIND], request.headers.get("X-Request-ID", "")
    if kind == MESSAGE:
        subject = read_query().get(SERVICE_SUBJECT)
        kind = subject if subject in SUBJECTS else UNKNOWN
    values = {
        "request_id": sent if _REQUEST_ID.fullmatch(sent) else uuid4().hex,
        "kind": kind,
        "status": response.status_code,
        "duration": perf_counter() - environ[STARTED],
    }
    log.info(LINE, values, extra=values)
