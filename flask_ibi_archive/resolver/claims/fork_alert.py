"""Tells the administrators that the log of an Archive is forked, by e-mail.

That the e-mail was sent is stored afterwards. A process that is killed in between repeats it. If
the mail server fails, the e-mail is tried again later.
"""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Any

from sqlalchemy import Row, func, or_, select, update

from flask_ibi_archive.errors import ConfigError, MailError
from flask_ibi_archive.resolver.claims.conflict_alerts import RETRY
from flask_ibi_archive.resolver.claims.tables import Fork
from flask_ibi_archive.resolver.config import ResolverConfig
from flask_ibi_archive.resolver.tables import RegisteredArchive
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.mail import compose_email, send_email

SUBJECT = "Declarações contraditórias / Contradictory claims of {service}"
TEXT = """\
O Arquivo {service}, em {address}, assinou duas listas de declarações que se
contradizem. Uma lista só pode crescer; por isso, as declarações deste Arquivo deixam de valer, e o
resolvedor volta a perguntar-lhe sobre cada item.

Causas possíveis: o servidor inteiro foi restaurado de uma cópia antiga, dois servidores assinam
com a mesma chave, ou a chave foi roubada. Depois de eliminar a causa, comece uma lista nova e
registre o Arquivo de novo:

    flask ibi claims rotate --new-log
    flask ibi register-archive

As duas listas assinadas estão no fim desta mensagem.

--

The Archive {service} at {address} {reason}.

A log of claims may only grow. Two checkpoints that the Archive signed contradict each other, so its
claims no longer count: the resolver asks this Archive about each item again.

Possible causes: the whole server was restored from an old copy, two servers sign with the same key,
or the key was stolen. When the cause is removed, begin a new log and register the Archive again:

    flask ibi claims rotate --new-log
    flask ibi register-archive

The earlier checkpoint:

{earlier}
The later checkpoint:

{later}"""

_logger = logging.getLogger(__name__)

_FORKS = (
    select(
        Fork.id,
        Fork.reason,
        Fork.earlier,
        Fork.later,
        RegisteredArchive.service_ibi.label("service"),
        RegisteredArchive.address,
        # the Archive itself sent admin_email; email came from the resolver's administrator
        func.coalesce(RegisteredArchive.admin_email, RegisteredArchive.email).label("email"),
    )
    .join(RegisteredArchive, RegisteredArchive.id == Fork.archive_id)
    .where(Fork.told_at.is_(None))
    .order_by(Fork.id)
)


def tell_of_forks(database: Database, config: ResolverConfig, now: datetime) -> None:
    """Send the e-mails about forks of which the administrators were not told yet.

    The administrators of the Archive and of the resolver get the same e-mail. The follower calls
    this function again and again, outside of a transaction. Failures of the mail server are logged.

    :param now: the present time.
    :raises NotReady: if the database is not available.
    """
    if config.mail is None:
        return
    is_due = or_(Fork.tried_at.is_(None), Fork.tried_at <= now - RETRY)
    for fork in database.read_rows(_FORKS.where(is_due)):
        _store_time(database, fork.id, tried_at=now)
        try:
            is_sent = _send(config, fork)
        except (ConfigError, MailError) as error:
            _logger.error("the e-mail about the fork of %s can't be sent: %s", fork.service, error)
        else:
            if is_sent:
                _store_time(database, fork.id, told_at=now)


def _send(config: ResolverConfig, fork: Row[Any]) -> bool:
    """Send the e-mail about a fork; return False if nobody has an address.

    :raises ConfigError: if the address of the sender is not configured or not valid.
    :raises MailError: if the mail server does not accept the e-mail.
    """
    recipients = ", ".join(dict.fromkeys(one for one in (fork.email, config.email) if one))
    if not recipients:
        return False
    facts = fork._mapping
    message = compose_email(
        config.mail,
        ("IBI_RESOLVER_EMAIL", config.email),
        recipients,
        SUBJECT.format_map(facts),
        TEXT.format_map(facts),
    )
    send_email(config.mail, message)
    return True


def _store_time(database: Database, number: int, **values: datetime) -> None:
    with database.writing() as connection:
        connection.execute(update(Fork).where(Fork.id == number).values(values))
