"""The registration of an Archive with a resolver: the registration key and the e-mails.

The administrators of the Archive and of the resolver agree on a registration key by e-mail. The key
proves that a later inclusion request comes from the Archive. A URL key has the same form as a
registration key.

Source: [R] 5.1, Table 5.1, Example 5.1.
"""

from __future__ import annotations

import re

from flask_ibi_archive.core.identifiers import Identifier

# number = 10*DIGIT
# key    = number ["-" number]
_NUMBER = "[0-9]{10,}"
_KEY = re.compile(rf"{_NUMBER}(?:-{_NUMBER})?")

EMAIL_SUBJECT = "Cadastro de um novo Arquivo"
_EMAIL_BODY = """\
IBI do serviço de Arquivo:
archiveserviceibi = {service_ibi}

Chave de cadastro:
registrationkey = {key}"""

CONFIRMATION_SUBJECT = "Confirmação do cadastro de um Arquivo / Archive registered"
_CONFIRMATION_BODY = """\
O serviço de Arquivo com este IBI está cadastrado:
archiveserviceibi = {service_ibi}

O resolvedor passa a consultá-lo assim que receber dele um pedido de inclusão com a chave de
cadastro informada. No flask_ibi_archive, com o servidor em funcionamento:
{settings}flask ibi register-archive

--

The Archive service with this IBI is registered:
archiveserviceibi = {service_ibi}

The resolver sends requests to the Archive after the Archive has requested its inclusion with the
registration key that was sent by e-mail. In flask_ibi_archive, use this command while the server is
running:
{settings}flask ibi register-archive"""


def is_key(text: str) -> bool:
    """Return True if a text has the form of a key: one or two numbers of ten or more digits.

    Source: [R] Table 5.1.
    """
    return _KEY.fullmatch(text) is not None


def parse_key(text: str) -> str:
    """Check that a text has the form of a key, and return the text.

    :param text: such as ``1424636122-5331490054869684``.
    :raises ValueError: if the form is wrong. The message does not show the text, because a
        registration key is a secret.
    Source: [R] Table 5.1.
    """
    if not is_key(text):
        raise ValueError(
            "a key must be a number of ten or more digits, or two such numbers joined by a hyphen; "
            f"this text of {len(text)} characters is not a key"
        )
    return text


def build_registration_email(service_ibi: Identifier, key: str) -> tuple[str, str]:
    """Return the subject and the body of the e-mail that requests a registration.

    :param service_ibi: the IBI of the service of the Archive.
    :param key: the registration key. The body contains the key.
    Source: [R] 5.1, Example 5.1.
    """
    return EMAIL_SUBJECT, _EMAIL_BODY.format(service_ibi=service_ibi.text, key=key)


def build_confirmation_email(service_ibi: Identifier, resolver_url: str | None) -> tuple[str, str]:
    """Return the subject and the body of the e-mail that confirms a registration.

    :param service_ibi: the IBI of the service of the Archive.
    :param resolver_url: the URL of the resolver; None if unknown.
    Source: [R] 5.1.
    """
    settings = "" if resolver_url is None else f"IBI_RESOLVER_URL = {resolver_url}\n"
    body = _CONFIRMATION_BODY.format(service_ibi=service_ibi.text, settings=settings)
    return CONFIRMATION_SUBJECT, body
