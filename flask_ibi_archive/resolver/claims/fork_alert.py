"""Tells the administrators that the log of an Archive is forked."""

from __future__ import annotations

import logging

from flask_ibi_archive.errors import ConfigError, MailError
from flask_ibi_archive.resolver.claims.followed_logs import DueLog
from flask_ibi_archive.resolver.claims.log_reader import Reading
from flask_ibi_archive.resolver.config import ResolverConfig
from flask_ibi_archive.server.mail import compose_email, send_email

SUBJECT = "Contradictory claims of {service}"
TEXT = """\
The Archive {service} at {address} {reason}.

A log of claims may only grow. Two checkpoints that the Archive signed contradict each other, so its
claims no longer count: the resolver asks this Archive about each item again.

Possible causes: a backup of the database was restored without the file with the state of the log,
two servers sign with the same key, or the key was stolen. When the cause is removed, the Archive
must begin a new log and register again:

    flask ibi claims rotate
    flask ibi register

The earlier checkpoint:

{earlier}
The later checkpoint:

{later}"""

_logger = logging.getLogger(__name__)


def tell_of_fork(config: ResolverConfig, log: DueLog, reading: Reading) -> None:
    """Write a fork to the log of the resolver, and to its and the Archive's administrators.

    Without a mail server, the log of the resolver is all.
    """
    assert reading.fork is not None
    _logger.error(
        "the log of %s at %s is forked: the Archive %s; to see the checkpoints, run: flask"
        " ibi-resolver claims --forks",
        log.service_ibi, log.address, reading.reason,
    )  # fmt: skip
    if config.mail is None:
        return
    earlier, later = reading.fork
    facts = {
        "service": log.service_ibi,
        "address": log.address,
        "reason": reading.reason,
        "earlier": earlier,
        "later": later,
    }
    archive_email = next((email for email in log.emails if email is not None), None)
    for email in dict.fromkeys((archive_email, config.email)):
        if email is None:
            continue
        try:
            message = compose_email(
                config.mail,
                ("IBI_RESOLVER_EMAIL", config.email),
                email,
                SUBJECT.format_map(facts),
                TEXT.format_map(facts),
            )
            send_email(config.mail, message)
        except (ConfigError, MailError) as error:
            _logger.error("the e-mail about a fork to %s can't be sent: %s", email, error)
