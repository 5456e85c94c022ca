"""The registration of an Archive: its key, and the e-mails about it.

URL keys have the same form as registration keys. Source: [R] 5.1, Table 5.1, Example 5.1.
"""

from __future__ import annotations

import re

from flask_ibi_archive.identifiers import Identifier

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
O Arquivo com este IBI do serviço de Arquivo está cadastrado:
archiveserviceibi = {service_ibi}

O Arquivo passa a ser consultado assim que pedir a sua inclusão, com a chave de cadastro informada. No
flask_ibi_archive, com o servidor em funcionamento:
{settings}flask ibi register-archive

--

The Archive whose service has this IBI is registered:
archiveserviceibi = {service_ibi}

It is asked for its items as soon as it requests to be included, by the registration key that was handed in.
In flask_ibi_archive, while the server runs:
{settings}flask ibi register-archive"""


def is_key(text: str) -> bool:
    """Tell whether a text has the form of a key: ``number ["-" number]``, ten digits or more each.

    Source: [R] Table 5.1.
    """
    return _KEY.fullmatch(text) is not None


def parse_key(text: str) -> str:
    """Return a key.

    :param text: such as ``1424636122-5331490054869684``.
    :returns: the same text.
    :raises ValueError: if it is none. The message does not show the text: a registration key is a
        secret.
    Source: [R] Table 5.1.
    """
    if not is_key(text):
        raise ValueError(
            "a key is a number of ten digits or more, or two of them joined by a hyphen; "
            f"this text of {len(text)} characters is none"
        )
    return text


def build_registration_email(service_ibi: Identifier, key: str) -> tuple[str, str]:
    """Return subject and body of the e-mail that asks the resolver's administrator to register an
    Archive.

    :param key: the registration key; the body holds it.
    Source: [R] 5.1, Example 5.1.
    """
    return EMAIL_SUBJECT, _EMAIL_BODY.format(service_ibi=service_ibi.text, key=key)


def build_confirmation_email(service_ibi: Identifier, resolver_url: str | None) -> tuple[str, str]:
    """Return subject and body of the e-mail that tells an Archive's administrator of its
    registration.

    :param resolver_url: the address of the resolver's service, None where it is not known.
    Source: [R] 5.1.
    """
    settings = "" if resolver_url is None else f"IBI_RESOLVER_URL = {resolver_url}\n"
    body = _CONFIRMATION_BODY.format(service_ibi=service_ibi.text, settings=settings)
    return CONFIRMATION_SUBJECT, body
