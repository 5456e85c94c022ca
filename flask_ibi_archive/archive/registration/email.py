"""The registration e-mail ([R] 5.1)."""

from __future__ import annotations

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.registration.inclusion import required_key
from flask_ibi_archive.identifiers import parse_identifier
from flask_ibi_archive.protocol.registration import build_registration_email


def registration_email(archive: Archive) -> tuple[str, str]:
    """Return the subject and the body of the e-mail that requests registration with a resolver.

    :raises ConfigError: if IBI_REGISTRATION_KEY is not set.
    :raises NotReady: if the Archive does not exist yet.
    Source: [R] 5.1, Example 5.1.
    """
    key = required_key(archive.config)
    return build_registration_email(parse_identifier(archive.served().service_ibi), key)
