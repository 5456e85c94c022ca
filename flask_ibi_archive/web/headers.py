"""The headers of whatever people are shown: how it may be kept, and what a browser may do with it."""

from __future__ import annotations

from flask import Response

#: A page of ours: nothing foreign, no script.
PAGE = "default-src 'self'; style-src 'unsafe-inline'"
#: A deposited file that a browser runs: it must not act with the host's own rights.
SANDBOX = "sandbox allow-scripts allow-forms allow-popups allow-downloads"


def set_headers(response: Response, policy: str | None = PAGE, *, private: bool = True) -> Response:
    """Set the headers of a response, and give it back.

    :param policy: its Content-Security-Policy.
    :param private: whether it depends on who asks, and must not be kept where others could get it.
    """
    response.headers["Cache-Control"] = "private, no-cache" if private else "no-cache"
    response.headers["X-Content-Type-Options"] = "nosniff"
    if policy is not None:
        response.headers["Content-Security-Policy"] = policy
    return response
