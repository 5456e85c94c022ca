"""Parses the values of settings.

Each parser checks a value and converts it, or raises InvalidValue, whose text says what the value
should be.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Sequence
from decimal import Decimal
from email.utils import formataddr
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from flask_ibi_archive.core.identifiers import (
    Form,
    canonical_address,
    parse_granularity,
    parse_identifier,
)
from flask_ibi_archive.core.protocol.hosts import (
    InnerHosts,
    is_archive_address,
    normalize_host,
    parse_inner_hosts,
)
from flask_ibi_archive.core.protocol.inclusion import is_email, is_key
from flask_ibi_archive.core.protocol.relations import RelationPattern, parse_relation_pattern

Network = IPv4Network | IPv6Network

#: The longest timeout in seconds. The timers of operating systems have an upper limit.
LONGEST_TIMEOUT = 3600
#: Besides letters, digits and "-._~", a path may contain these characters unencoded (RFC 3986).
PATH_CHARACTERS = "/:@!$&'()*+,;="
#: The description of IBI_BASE_TEMPLATE for error messages.
TEMPLATE = "the name of a template in a template folder of the app, as layout.html"


class InvalidValue(ValueError):
    """The value of a setting is wrong. The text of the error describes the allowed values."""


def parse_text(value: Any) -> str:
    """Return a text unchanged, or a number as text.

    The value of a setting may be a number, because Flask reads digits in an environment variable as
    a number.

    :raises InvalidValue: if the value is neither a text nor a number.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidValue("a text")
    try:
        # Decimal writes all digits: str() would write 0.00001 as 1e-05
        return f"{Decimal(repr(value)):f}" if isinstance(value, float) else str(value)
    except ValueError as error:  # Python does not convert an int with thousands of digits
        raise InvalidValue("a text") from error


def make_parser(
    expected: str,
    convert: Callable[[Any], Any],
    accepts: Callable[[Any], object] = lambda converted: True,
    *,
    shows_reason: bool = False,
) -> Callable[[Any], Any]:
    """Return a function that checks and converts values.

    For a wrong value, the function raises :class:`InvalidValue`.

    :param expected: a description of the allowed values, for the error message.
    :param convert: a function that converts a value. For a wrong value, the function may raise
        TypeError, ValueError or OverflowError.
    :param accepts: a function that returns a true value if the converted value is allowed.
    :param shows_reason: whether the error message also contains the error text of ``convert``.
    """

    def parse(value: Any) -> Any:
        try:
            converted = convert(value)
        except (TypeError, ValueError, OverflowError) as error:
            reason = f" ({error})" if shows_reason and str(error) else ""
            raise InvalidValue(expected + reason) from error
        if not accepts(converted):
            raise InvalidValue(expected)
        return converted

    return parse


def _require_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _convert_whole_number(value: Any) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError
    return value


def _convert_ports(value: Any) -> tuple[int, int]:
    ports = [value] if isinstance(value, int) else _split_words(value)
    rep, ibip = map(parse_port, ports if len(ports) == 2 else [*ports, *ports])
    return rep, ibip


def _convert_seconds(value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError
    return float(value)


def _convert_flag(value: Any) -> bool:
    words = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
    if isinstance(value, str) and value.lower() in words:
        return words[value.lower()]
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    raise TypeError


def _require_list(value: Any) -> Sequence[Any]:
    """Return the value, which must be a list or a tuple.

    :raises TypeError: if the value has another type.
    """
    if not isinstance(value, list | tuple):
        raise TypeError
    return value


def _split_words(value: Any) -> Sequence[Any]:
    """Return a list unchanged. Split a text into words at commas and spaces."""
    return value.replace(",", " ").split() if isinstance(value, str) else _require_list(value)


def _convert_secret(value: Any) -> str | bytes:
    return value if isinstance(value, bytes) else parse_text(value)


def _convert_service_ibi(value: Any) -> str:
    identifier = parse_identifier(str(value))
    if identifier.form is Form.LEGACY:
        raise TypeError
    return identifier.text


def _is_base_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        has_server = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        return False
    return bool(has_server) and url.isascii() and not re.search(r"[?#\s]", url)


def _convert_networks(value: Any) -> tuple[Network, ...]:
    # str(), because ip_network() reads a number as an address
    return tuple(ip_network(str(item)) for item in _split_words(value))


def _convert_hosts(value: Any) -> InnerHosts:
    return parse_inner_hosts([_require_text(item) for item in _split_words(value)])


def _convert_own_hosts(value: Any) -> frozenset[str]:
    hosts = [_require_text(item) for item in _split_words(value)]
    if not all(map(is_archive_address, hosts)):
        raise TypeError
    return frozenset(map(normalize_host, hosts))


def _convert_relations(value: Any) -> tuple[RelationPattern, ...]:
    return tuple(parse_relation_pattern(text) for text in _require_list(value))


parse_secret = make_parser("a long random text", _convert_secret, bool)
parse_secrets = make_parser(
    # a single text is not allowed, because each letter of the text would become a secret
    "a list of the earlier values of SECRET_KEY",
    lambda value: tuple(parse_secret(item) for item in _require_list(value)),
)
parse_archive_address = make_parser(
    'host [":" port] without http://, as mtc-m16c.sid.inpe.br:8080',
    _require_text,
    is_archive_address,
)
parse_identifier_setting = make_parser(
    "an IBI", lambda value: parse_identifier(str(value)), shows_reason=True
)
#: This parser returns the IBIs in canonical case.
parse_identifiers = make_parser(
    'a list of IBIs, as ["8JMKD3MGP8W/34PGRBS"]',
    lambda value: frozenset(parse_identifier(str(word)).text for word in _split_words(value)),
    shows_reason=True,
)
#: This parser returns the IBI in canonical case.
parse_service_ibi = make_parser(
    "a repository name or an IBIp, not a legacy identifier", _convert_service_ibi, shows_reason=True
)
parse_ip = make_parser(
    "an IPv4 or IPv6 address, as 150.163.34.243", lambda value: canonical_address(str(value))
)
parse_table_name = make_parser(
    "the name of a table, as alembic_version", _require_text, re.compile(r"[A-Za-z_]\w*").fullmatch
)
#: A word that needs no encoding in a message of the protocol (a list of pairs).
parse_ascii_word = make_parser(
    "one word of ASCII, as 2014:11.09.02.16.15",
    parse_text,
    re.compile(r"[\x21-\x7a\x7c\x7e]+").fullmatch,
)
parse_email = make_parser("an e-mail address, as banon@dpi.inpe.br", _require_text, is_email)
#: Source: [R] Table 5.1.
parse_registration_key = make_parser(
    'ten digits or more, optionally followed by "-" and ten digits or more', parse_text, is_key
)
parse_base_url = make_parser(
    "an http or https URL without a query, as http://urlib.net",
    lambda value: _require_text(value).rstrip("/"),
    _is_base_url,
)
parse_granularity_setting = make_parser(
    'a number of seconds: "60", "1", "0.1", "0.01", "0.001" and so on',
    lambda value: parse_granularity(parse_text(value)),
)
parse_port = make_parser("a port, 1 to 65535", _convert_whole_number, lambda port: 0 < port < 65536)
#: This parser returns the port of repository names and the port of IBIps.
parse_ports = make_parser("a port, 1 to 65535, or two ports, as 80,802", _convert_ports)
parse_count = make_parser(
    "a whole number, 1 or more", _convert_whole_number, lambda count: count >= 1
)
parse_seconds = make_parser(
    "a number of seconds, 0 or more", _convert_seconds, lambda seconds: 0 <= seconds < float("inf")
)
parse_timeout = make_parser(
    f"a number of seconds, more than 0 and at most {LONGEST_TIMEOUT}",
    _convert_seconds,
    lambda seconds: 0 < seconds <= LONGEST_TIMEOUT,
)
parse_flag = make_parser("true or false", _convert_flag)
parse_relations = make_parser(
    'a list of relations, as ["", ".lastedition", ".metadata(*)"]',
    _convert_relations,
    shows_reason=True,
)
parse_folder = make_parser(
    "the path of a folder",
    lambda value: value if isinstance(value, Path) else Path(parse_text(value)),
    lambda path: "\0" not in str(path),
)
#: This parser returns the 32 bytes of an Ed25519 private key.
parse_private_key = make_parser(
    "32 random bytes in base64, as the command openssl rand -base64 32 prints",
    lambda value: b64decode(_require_text(value), validate=True),
    lambda key: len(key) == 32,
)
parse_networks = make_parser(
    'a list of networks in CIDR form, as ["10.0.0.0/8"]', _convert_networks, shows_reason=True
)
#: The hosts in a private network to which the program may send requests.
parse_hosts = make_parser(
    'a list of names, addresses and networks, as ["files.corp", ".intranet", "192.168.0.0/16"]',
    _convert_hosts,
    shows_reason=True,
)
#: Hosts, perhaps with a port, in the form of :func:`normalize_host`.
parse_own_hosts = make_parser(
    'a list of hosts without http://, as ["old.example.org", "old.example.org:8080"]',
    _convert_own_hosts,
)
parse_scheme = make_parser("http or https", _require_text, ("http", "https").__contains__)
#: This parser returns the percent-encoded path without a slash at the end, "" for the root.
parse_root = make_parser(
    "the path under which the app is mounted, as /repository",
    lambda value: quote(_require_text(value).rstrip("/"), safe=PATH_CHARACTERS),
    re.compile("(?:/[^/]+)*").fullmatch,
)
parse_policy = make_parser(
    'a Content-Security-Policy in one line, or "" for no policy',
    _require_text,
    lambda text: text.isascii() and (not text or text.isprintable()),
)
parse_template = make_parser(TEMPLATE, lambda value: _require_text(value).strip(), bool)


def parse_sender(value: Any) -> str:
    """Return the sender of e-mails. A pair (name, address) is allowed, as in Flask-Mail."""
    if isinstance(value, list | tuple) and len(value) == 2:
        return formataddr((str(value[0]), parse_email(value[1])))
    return parse_text(value)
