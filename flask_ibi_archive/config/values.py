"""The values of settings: each check gives the value as it is used, or says what it should be."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from email.utils import formataddr
from fractions import Fraction
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from flask_ibi_archive.errors import ConfigError
from flask_ibi_archive.identifiers import (
    Form,
    Identifier,
    canonical_address,
    parse_granularity,
    parse_identifier,
)
from flask_ibi_archive.protocol.archive_address import is_archive_address
from flask_ibi_archive.protocol.hosts import InnerHosts, parse_inner_hosts
from flask_ibi_archive.protocol.keys import is_key
from flask_ibi_archive.protocol.relations import RelationPattern, parse_relation_pattern

Network = IPv4Network | IPv6Network

EMAIL = re.compile(r"[^\s@]+@[^\s@]+")
#: The keys whose values stand in no message.
SECRETS = (
    "SECRET_KEY",
    "SECRET_KEY_FALLBACKS",
    "IBI_REGISTRATION_KEY",
    "IBI_DATABASE_URI",
    "IBI_RESOLVER_DATABASE_URI",
    "MAIL_PASSWORD",
)
#: Seconds; a system's timers don't take any number.
LONGEST_TIMEOUT = 3600
#: The default of IBI_DATABASE_TIMEOUT, which an Archive and a resolver of one app share.
DATABASE_TIMEOUT = 5
ASCII_WORD = re.compile(r"[\x21-\x7a\x7c\x7e]+")


class Wrong(ValueError):
    """A value is not what it should be; the text says what it should be."""


class Reader:
    """Reads the values of a Flask config.

    :param config: the config.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config

    def read(self, key: str, check: Callable[[Any], Any], default: Any = None) -> Any:
        """Give the checked value of a key; None or an empty text counts as not set."""
        value = self.config.get(key)
        if value is None or value == "":
            value = default
            if value is None:
                return None
        try:
            return check(value)
        except Wrong as error:
            raise ConfigError(key, _hidden(key, value), str(error)) from error


def _hidden(key: str, value: Any) -> Any:
    return "(hidden)" if key in SECRETS else value


def a_text(value: Any) -> str:
    """Check a text; a number, as the environment may hold one, is its digits."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise Wrong("a text")
    try:
        return f"{Decimal(repr(value)):f}" if isinstance(value, float) else str(value)
    except ValueError as error:  # a number of more digits than Python writes
        raise Wrong("a text") from error


def a_secret(value: Any) -> str | bytes:
    """Check a secret."""
    if isinstance(value, bytes) and value:
        return value
    try:
        text = a_text(value)
    except Wrong:
        text = ""
    if not text:
        raise Wrong("a long random text")
    return text


def some_secrets(value: Any) -> tuple[str | bytes, ...]:
    """Check a list of secrets."""
    expected = "a list of the texts that SECRET_KEY had before"
    # a text is no list of its letters, and an empty text no secret
    if not isinstance(value, list | tuple):
        raise Wrong(expected)
    try:
        return tuple(a_secret(one) for one in value)
    except Wrong as error:
        raise Wrong(expected) from error


def an_address(value: Any) -> str:
    """Check an archiveaddress."""
    if not isinstance(value, str) or not is_archive_address(value):
        raise Wrong('host [":" port] without http://, as mtc-m16c.sid.inpe.br:8080')
    return value


def an_identifier(value: Any) -> Identifier:
    """Check an IBI."""
    try:
        return parse_identifier(value if isinstance(value, str) else str(value))
    except ValueError as error:
        raise Wrong(f"an IBI ({error})") from error


def a_service_ibi(value: Any) -> str:
    """Check the IBI of a service; give it in canonical case."""
    identifier = an_identifier(value)
    if identifier.form is Form.LEGACY:
        raise Wrong("a repository name or an IBIp, not a legacy identifier")
    return identifier.text


def an_ip(value: Any) -> str:
    """Check an IP address; give it in canonical text."""
    try:
        return canonical_address(value if isinstance(value, str) else str(value))
    except ValueError as error:
        raise Wrong("an IPv4 or IPv6 address, as 150.163.34.243") from error


def an_ascii_word(value: Any) -> str:
    """Check a word that a list of pairs can hold."""
    text = a_text(value)
    if not ASCII_WORD.fullmatch(text):
        raise Wrong("one word of ASCII, as 2014:11.09.02.16.15")
    return text


def an_email(value: Any) -> str:
    """Check an e-mail address."""
    if not isinstance(value, str) or not value.isascii() or not EMAIL.fullmatch(value):
        raise Wrong("an e-mail address, as banon@dpi.inpe.br")
    return value


def a_registration_key(value: Any) -> str:
    """Check a key of [R] Table 5.1."""
    text = a_text(value)
    if not is_key(text):
        raise Wrong('ten digits or more, perhaps "-" and ten more')
    return text


def a_base_url(value: Any) -> str:
    """Check a URL without a query; give it without a slash at its end."""
    try:
        parts = urlsplit(value) if isinstance(value, str) else None
        right = parts is not None and parts.scheme in ("http", "https") and bool(parts.hostname)
        right = right and parts is not None and not parts.query and not parts.fragment
        right = right and parts is not None and parts.port != 0
    except ValueError:
        right = False
    if not right or not str(value).isascii() or any(sign.isspace() for sign in str(value)):
        raise Wrong("an http or https URL without a query, as http://urlib.net")
    return str(value).rstrip("/")


def a_granularity(value: Any) -> Fraction:
    """Check a granularity of the temporal distributor."""
    try:
        # a number in the environment is its digits
        return parse_granularity(a_text(value))
    except ValueError as error:
        raise Wrong('"60", "1", "0.1", "0.01", "0.001" and so on, in seconds') from error


def a_port(value: Any) -> int:
    """Check a port."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 65536:
        raise Wrong("a port, 1 to 65535")
    return value


def some_seconds(value: Any) -> float:
    """Check a number of seconds."""
    try:
        seconds = -1.0 if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise Wrong("a number of seconds, 0 or more")
    return seconds


def a_timeout(value: Any) -> float:
    """Check the seconds that something may take."""
    try:
        seconds = some_seconds(value)
    except Wrong:
        seconds = 0.0
    if not 0 < seconds <= LONGEST_TIMEOUT:
        raise Wrong(f"a number of seconds, more than 0 and at most {LONGEST_TIMEOUT}")
    return seconds


def a_flag(value: Any) -> bool:
    """Check a flag."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    words = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
    if isinstance(value, str) and value.lower() in words:
        return words[value.lower()]
    raise Wrong("true or false")


def some_relations(value: Any) -> tuple[RelationPattern, ...]:
    """Check a list of relations."""
    expected = 'a list of relations, as ["", ".lastedition", ".metadata(*)"]'
    if not isinstance(value, list | tuple):
        raise Wrong(expected)
    try:
        return tuple(parse_relation_pattern(text) for text in value)
    except (TypeError, ValueError) as error:
        raise Wrong(f"{expected} ({error})") from error


def a_folder(value: Any) -> str:
    """Check the path of a folder."""
    try:
        text = str(value) if isinstance(value, Path) else a_text(value)
    except Wrong:
        text = "\0"
    if "\0" in text:
        raise Wrong("the path of a folder")
    return text


def some_networks(value: Any) -> tuple[Network, ...]:
    """Check a list of networks."""
    items = value.replace(",", " ").split() if isinstance(value, str) else value
    if not isinstance(items, list | tuple):
        raise Wrong('a list of networks, as ["10.0.0.0/8"]')
    try:
        # a number would count as an address
        return tuple(ip_network(str(item)) for item in items)
    except ValueError as error:
        raise Wrong(f'a list of networks in CIDR form, as ["10.0.0.0/8"] ({error})') from error


def some_hosts(value: Any) -> InnerHosts:
    """Check a list of hosts that are no public ones."""
    right = (
        'a list of names, addresses and networks, as ["files.corp", ".intranet", "192.168.0.0/16"]'
    )
    items = value.replace(",", " ").split() if isinstance(value, str) else value
    if not isinstance(items, list | tuple) or not all(isinstance(item, str) for item in items):
        raise Wrong(right)
    try:
        return parse_inner_hosts(items)
    except ValueError as error:
        raise Wrong(f"{right} ({error})") from error


def a_scheme(key: str, value: Any) -> str:
    """Check the scheme of web addresses."""
    if value not in ("http", "https"):
        raise ConfigError(key, value, "http or https")
    return str(value)


def a_sender(value: Any) -> str:
    """Check a sender: an address, or a name and an address as Flask's mail extensions take them."""
    if isinstance(value, list | tuple) and len(value) == 2:
        return formataddr((str(value[0]), an_email(value[1])))
    return a_text(value)


def a_count(value: Any) -> int:
    """Check a whole number, 1 or more."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise Wrong("a whole number, 1 or more")
    return value
