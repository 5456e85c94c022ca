"""Tokens that protect forms against requests of other sites (CSRF).

A token is the random number in the session of the user, signed. A form of another site can't
contain it. The protection does not need an extension of the host. If the host has one, such as
Flask-WTF, the forms contain its token, too.
"""

from __future__ import annotations

import secrets
from typing import Any

from flask import session
from itsdangerous import BadData, URLSafeTimedSerializer

from flask_ibi_archive.server.web.requests import current_archive

#: The key of the random number in the session.
KEY = "ibi_form"
#: The number of seconds for which a form may be open.
MAX_AGE = 12 * 3600


def issue_token() -> str:
    """Return a token for a form of the current user."""
    return _serializer().dumps(session.setdefault(KEY, secrets.token_urlsafe(16)))


def is_token_valid(token: str) -> bool:
    """Return whether a token was issued to the current user, at most :data:`MAX_AGE` ago."""
    try:
        number = _serializer().loads(token, max_age=MAX_AGE)
    except BadData:
        return False
    return KEY in session and secrets.compare_digest(number, session[KEY])


def _serializer() -> URLSafeTimedSerializer:
    keys: list[Any] = [*current_archive().config.secret_keys]
    return URLSafeTimedSerializer(keys, salt=KEY)
