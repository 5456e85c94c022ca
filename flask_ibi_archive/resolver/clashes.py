"""Clashes: two included Archives mint identifiers with the same prefix.

They can give one identifier to two items. Both stay included, but their administrators are told.
Archives of one database do not clash, because they share the dates that were issued.

Source: federation CF-2; [G] 5, function f.
"""

from __future__ import annotations

import logging
from itertools import combinations

from flask_ibi_archive.core.identifiers import parse_identifier
from flask_ibi_archive.errors import ConfigError, MailError
from flask_ibi_archive.resolver.archive_rows import list_registered
from flask_ibi_archive.resolver.config import ResolverConfig
from flask_ibi_archive.resolver.tables import RegisteredArchive
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.mail import compose_email, send_email

_SUBJECT = "Dois Arquivos, um prefixo / Two Archives, one prefix"
_TEXT = """\
Dois Arquivos podem dar um mesmo identificador a dois itens: {clash}.
Em um deles, mudem IBI_MINT_PORT, reiniciem o servidor e executem: flask ibi register-archive
Os identificadores que já existem não mudam.

Two Archives can give one identifier to two items: {clash}.
At one of them, change IBI_MINT_PORT, restart the server, and run: flask ibi register-archive
Identifiers that exist do not change."""


def find_clashes(database: Database, service_ibi: str | None = None) -> dict[str, set[str]]:
    """Return the clashes in words, with the e-mail addresses of the administrators.

    An Archive that did not state its prefixes counts with the prefix of its service IBI.

    :param service_ibi: return only the clashes of this Archive; None: of all Archives.
    :raises NotReady: if the database is not available or has no tables of the resolver.
    """
    is_included = RegisteredArchive.included_at.is_not(None)
    minters = [
        (archive, {*(archive.mints or parse_identifier(archive.service_ibi).prefix).split()})
        for archive in database.read(lambda connection: list_registered(connection, is_included))
    ]
    clashes = {}
    for (first, prefixes), (second, others) in combinations(minters, 2):
        services = first.service_ibi, second.service_ibi
        has_own_database = first.database is None or first.database != second.database
        if prefixes & others and has_own_database and service_ibi in (None, *services):
            shared = " or ".join(sorted(prefixes & others))
            text = f"identifiers with the prefix {shared} are minted by {' and '.join(services)}"
            clashes[text] = {str(first.admin_email), str(second.admin_email)} - {""}
    return clashes


def tell_of_clashes(config: ResolverConfig, clashes: dict[str, set[str]]) -> None:
    """Send an e-mail about each clash to both administrators, if a mail server is set."""
    for text, recipients in clashes.items() if config.mail else ():
        content = ", ".join(sorted(recipients)), _SUBJECT, _TEXT.format(clash=text)
        sender = "IBI_RESOLVER_EMAIL", config.email
        try:
            send_email(config.mail, compose_email(config.mail, sender, *content))
        except (ConfigError, MailError) as error:
            logging.getLogger(__name__).error("no e-mail says that %s: %s", text, error)
