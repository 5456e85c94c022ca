"""The settings: read once, checked at the start, each error names the key."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from flask_ibi_archive.errors import ConfigError
from flask_ibi_archive.identifiers import (
    Form,
    Identifier,
    build_repository_name,
    canonical_address,
    parse_granularity,
    parse_identifier,
)
from flask_ibi_archive.protocol.keys import is_key
from flask_ibi_archive.protocol.relations import RelationPattern, parse_relation_pattern

Network = IPv4Network | IPv6Network

#: host [":" port] as in RFC 3986: a name, an IPv4 address or an IPv6 address in brackets.
ADDRESS = re.compile(
    r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?"
)
EMAIL = re.compile(r"[^\s@]+@[^\s@]+")
#: The keys whose values stand in no message.
SECRETS = ("SECRET_KEY", "SECRET_KEY_FALLBACKS", "IBI_REGISTRATION_KEY", "IBI_DATABASE_URI")
ASCII_WORD = re.compile(r"[\x21-\x7a\x7c\x7e]+")


@dataclass(frozen=True)
class ArchiveConfig:
    """The settings of an Archive; the keys are those of the Flask config, in lower case, without IBI_.

    ``secret_keys`` are SECRET_KEY_FALLBACKS and SECRET_KEY, the newest last.
    """

    database_uri: str
    archive_address: str
    archive_service_ibi: str | None
    archive_ip: str | None
    archive_platform_version: str
    archive_admin_email: str | None
    platform_software_ibi: Identifier | None
    registration_key: str | None
    resolver_url: str
    persistent_url_base: str
    granularity: Fraction
    mint_host: str
    mint_port: int | None
    mint_max_wait: float
    relations: tuple[RelationPattern, ...] | None
    filter_url_list: bool
    follow_editions: bool
    url_key_max_age: float
    local_resolution: bool
    files_folder: Path
    trusted_proxies: tuple[Network, ...]
    url_scheme: str
    secret_keys: tuple[str | bytes, ...]

    @classmethod
    def from_mapping(cls, config: Mapping[str, Any], instance_path: str) -> ArchiveConfig:
        """Give the settings that a Flask config holds.

        :param instance_path: the folder where the database and the files are kept unless told otherwise.
        :raises ConfigError: at the first key whose value is missing or wrong.
        """
        read = _Reader(config).read
        address = read(
            "IBI_ARCHIVE_ADDRESS", _address, config.get("SERVER_NAME") or "localhost:5000"
        )
        secret = read("SECRET_KEY", _secret)
        if secret is None:
            raise ConfigError("SECRET_KEY", None, "a long random text: URL keys are signed with it")
        return cls(
            database_uri=read(
                "IBI_DATABASE_URI", _text, f"sqlite:///{instance_path}/ibi_archive.sqlite"
            ),
            archive_address=address,
            archive_service_ibi=read("IBI_ARCHIVE_SERVICE_IBI", _service_ibi),
            archive_ip=read("IBI_ARCHIVE_IP", _ip),
            archive_platform_version=read(
                "IBI_ARCHIVE_PLATFORM_VERSION", _ascii_word, default_platform_version()
            ),
            archive_admin_email=read("IBI_ARCHIVE_ADMIN_EMAIL", _email),
            platform_software_ibi=read("IBI_PLATFORM_SOFTWARE_IBI", _identifier),
            registration_key=read("IBI_REGISTRATION_KEY", _registration_key),
            resolver_url=read("IBI_RESOLVER_URL", _base_url, "http://urlib.net/J8LNKB5R7W/3FUQHC5"),
            persistent_url_base=read("IBI_PERSISTENT_URL_BASE", _base_url, "http://urlib.net"),
            granularity=read("IBI_GRANULARITY", _granularity, "0.001"),
            mint_host=read("IBI_MINT_HOST", _text, host_of(address)),
            mint_port=read("IBI_MINT_PORT", _port),
            mint_max_wait=read("IBI_MINT_MAX_WAIT", _seconds, 10),
            relations=read("IBI_RELATIONS", _relations),
            filter_url_list=read("IBI_FILTER_URL_LIST", _flag, True),
            follow_editions=read("IBI_FOLLOW_EDITIONS", _flag, True),
            url_key_max_age=read("IBI_URL_KEY_MAX_AGE", _seconds, 3600),
            local_resolution=read("IBI_LOCAL_RESOLUTION", _flag, True),
            files_folder=Path(read("IBI_FILES_FOLDER", _folder, f"{instance_path}/ibi_files")),
            trusted_proxies=read("IBI_TRUSTED_PROXIES", _networks, ()),
            url_scheme=_one_of(
                "PREFERRED_URL_SCHEME", config.get("PREFERRED_URL_SCHEME") or "http"
            ),
            secret_keys=(*reversed(read("SECRET_KEY_FALLBACKS", _secrets, ())), secret),
        )

    @cached_property
    def base_url(self) -> str:
        """What the addresses in URL lists begin with."""
        return f"{self.url_scheme}://{self.archive_address}"

    def check_minting(self) -> tuple[str, str]:
        """Give the host and the IP that identifiers are made from.

        :raises ConfigError: if one of the two can't be.
        """
        if self.archive_ip is None:
            raise ConfigError(
                "IBI_ARCHIVE_IP",
                None,
                "the Archive's IPv4 or IPv6 address, as 150.163.34.243: IBIps are made from it",
            )
        try:
            # the longest name that there can be
            build_repository_name(self.mint_host, self.mint_port or 80, 1 + self.granularity)
        except ValueError as error:
            raise ConfigError(
                "IBI_MINT_HOST",
                self.mint_host,
                f"a domain name of two words or more, as mtc-m18.sid.inpe.br ({error})",
            ) from error
        return self.mint_host, self.archive_ip


#: The settings of a resolver, without IBI_.
RESOLVER_SETTINGS = {
    "RESOLVER_DATABASE_URI",
    "RESOLVER_SERVICE_IBI",
    "RESOLVER_ARCHIVE_TIMEOUT",
    "RESOLVER_DEADLINE",
    "RESOLVER_MAX_ANSWER",
    "RESOLVER_MAX_ROUNDS",
}
#: The keys that begin with IBI_; two of the settings are Flask's own.
KEYS = sorted(
    f"IBI_{name}"
    for name in {field.name.upper() for field in fields(ArchiveConfig)} | RESOLVER_SETTINGS
    if name not in ("URL_SCHEME", "SECRET_KEYS")
)


def find_unknown_keys(config: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    """Give the keys of a Flask config that look like ours and are none, each with the one most like it."""
    for key in config:
        if key.startswith("IBI_") and key not in KEYS:
            yield key, next(iter(get_close_matches(key, KEYS, n=1)), None)


def default_platform_version() -> str:
    """Give the version of the package."""
    try:
        return f"flask_ibi_archive-{version('flask_ibi_archive')}"
    except PackageNotFoundError:
        return "flask_ibi_archive"


def host_of(address: str) -> str:
    """Give the host of an archiveaddress, without its port."""
    found = ADDRESS.fullmatch(address)
    return found[1].strip("[]") if found else address


class _Wrong(ValueError):
    """A value is not what it should be; the text says what it should be."""


class _Reader:
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
        except _Wrong as error:
            raise ConfigError(key, _hidden(key, value), str(error)) from error


def _hidden(key: str, value: Any) -> Any:
    return "(hidden)" if key in SECRETS else value


def _text(value: Any) -> str:
    """Check a text; a number, as the environment may hold one, is its digits."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _Wrong("a text")
    try:
        return f"{Decimal(repr(value)):f}" if isinstance(value, float) else str(value)
    except ValueError as error:  # a number of more digits than Python writes
        raise _Wrong("a text") from error


def _secret(value: Any) -> str | bytes:
    if isinstance(value, bytes) and value:
        return value
    try:
        text = _text(value)
    except _Wrong:
        text = ""
    if not text:
        raise _Wrong("a long random text")
    return text


def _secrets(value: Any) -> tuple[str | bytes, ...]:
    expected = "a list of the texts that SECRET_KEY had before"
    # a text is no list of its letters, and an empty text no secret
    if not isinstance(value, list | tuple):
        raise _Wrong(expected)
    try:
        return tuple(_secret(one) for one in value)
    except _Wrong as error:
        raise _Wrong(expected) from error


def _address(value: Any) -> str:
    expected = 'host [":" port] without http://, as mtc-m16c.sid.inpe.br:8080'
    found = ADDRESS.fullmatch(value) if isinstance(value, str) else None
    if found is None or not 0 < int(found[2] or 80) < 65536:
        raise _Wrong(expected)
    if found[1].startswith("["):
        try:
            ip_address(found[1].strip("[]"))
        except ValueError as error:
            raise _Wrong(expected) from error
    return str(value)


def _identifier(value: Any) -> Identifier:
    try:
        return parse_identifier(value if isinstance(value, str) else str(value))
    except ValueError as error:
        raise _Wrong(f"an IBI ({error})") from error


def _service_ibi(value: Any) -> str:
    identifier = _identifier(value)
    if identifier.form is Form.LEGACY:
        raise _Wrong("a repository name or an IBIp, not a legacy identifier")
    return identifier.text


def _ip(value: Any) -> str:
    try:
        return canonical_address(value if isinstance(value, str) else str(value))
    except ValueError as error:
        raise _Wrong("an IPv4 or IPv6 address, as 150.163.34.243") from error


def _ascii_word(value: Any) -> str:
    text = _text(value)
    if not ASCII_WORD.fullmatch(text):
        raise _Wrong("one word of ASCII, as 2014:11.09.02.16.15")
    return text


def _email(value: Any) -> str:
    if not isinstance(value, str) or not value.isascii() or not EMAIL.fullmatch(value):
        raise _Wrong("an e-mail address, as banon@dpi.inpe.br")
    return value


def _registration_key(value: Any) -> str:
    text = _text(value)
    if not is_key(text):
        raise _Wrong('ten digits or more, perhaps "-" and ten more')
    return text


def _base_url(value: Any) -> str:
    try:
        parts = urlsplit(value) if isinstance(value, str) else None
        right = parts is not None and parts.scheme in ("http", "https") and bool(parts.hostname)
        right = right and parts is not None and not parts.query and not parts.fragment
        right = right and parts is not None and parts.port != 0
    except ValueError:
        right = False
    if not right or not str(value).isascii() or any(sign.isspace() for sign in str(value)):
        raise _Wrong("an http or https URL without a query, as http://urlib.net")
    return str(value).rstrip("/")


def _granularity(value: Any) -> Fraction:
    try:
        # a number in the environment is its digits
        return parse_granularity(_text(value))
    except ValueError as error:
        raise _Wrong('"60", "1", "0.1", "0.01", "0.001" and so on, in seconds') from error


def _port(value: Any) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 65536:
        raise _Wrong("a port, 1 to 65535")
    return value


def _seconds(value: Any) -> float:
    try:
        seconds = -1.0 if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise _Wrong("a number of seconds, 0 or more")
    return seconds


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    words = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
    if isinstance(value, str) and value.lower() in words:
        return words[value.lower()]
    raise _Wrong("true or false")


def _relations(value: Any) -> tuple[RelationPattern, ...]:
    expected = 'a list of relations, as ["", ".lastedition", ".metadata(*)"]'
    if not isinstance(value, list | tuple):
        raise _Wrong(expected)
    try:
        return tuple(parse_relation_pattern(text) for text in value)
    except (TypeError, ValueError) as error:
        raise _Wrong(f"{expected} ({error})") from error


def _folder(value: Any) -> str:
    try:
        text = str(value) if isinstance(value, Path) else _text(value)
    except _Wrong:
        text = "\0"
    if "\0" in text:
        raise _Wrong("the path of a folder")
    return text


def _networks(value: Any) -> tuple[Network, ...]:
    items = value.replace(",", " ").split() if isinstance(value, str) else value
    if not isinstance(items, list | tuple):
        raise _Wrong('a list of networks, as ["10.0.0.0/8"]')
    try:
        # a number would count as an address
        return tuple(ip_network(str(item)) for item in items)
    except ValueError as error:
        raise _Wrong(f'a list of networks in CIDR form, as ["10.0.0.0/8"] ({error})') from error


def _one_of(key: str, value: Any) -> str:
    if value not in ("http", "https"):
        raise ConfigError(key, value, "http or https")
    return str(value)
