"""The settings of an Archive, and parsers of values that the resolver's settings share.

Each setting is read once and checked at the start; each error names the key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from difflib import get_close_matches
from email.utils import formataddr
from fractions import Fraction
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from ipaddress import IPv4Network, IPv6Network, ip_network
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
from flask_ibi_archive.protocol.hosts import (
    InnerHosts,
    extract_host,
    is_archive_address,
    parse_inner_hosts,
)
from flask_ibi_archive.protocol.inclusion import is_email
from flask_ibi_archive.protocol.registration import is_key
from flask_ibi_archive.protocol.relations import RelationPattern, parse_relation_pattern

Network = IPv4Network | IPv6Network

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


class InvalidValue(ValueError):
    """A value is not what it should be; the text says what it should be."""


class SettingsReader:
    """Reads the values of a Flask config.

    :param config: the config.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config

    def read(self, key: str, check: Callable[[Any], Any], default: Any = None) -> Any:
        """Return the checked value of a key; None or an empty text counts as not set."""
        value = self.config.get(key)
        if value is None or value == "":
            value = default
            if value is None:
                return None
        try:
            return check(value)
        except InvalidValue as error:
            raise ConfigError(key, _hidden(key, value), str(error)) from error


def _hidden(key: str, value: Any) -> Any:
    return "(hidden)" if key in SECRETS else value


def parse_text(value: Any) -> str:
    """Check a text; a number, as the environment may hold one, is its digits."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidValue("a text")
    try:
        return f"{Decimal(repr(value)):f}" if isinstance(value, float) else str(value)
    except ValueError as error:  # a number of more digits than Python writes
        raise InvalidValue("a text") from error


def parse_secret(value: Any) -> str | bytes:
    """Check a secret."""
    if isinstance(value, bytes) and value:
        return value
    try:
        text = parse_text(value)
    except InvalidValue:
        text = ""
    if not text:
        raise InvalidValue("a long random text")
    return text


def parse_secrets(value: Any) -> tuple[str | bytes, ...]:
    """Check a list of secrets."""
    expected = "a list of the texts that SECRET_KEY had before"
    # a text is no list of its letters, and an empty text no secret
    if not isinstance(value, list | tuple):
        raise InvalidValue(expected)
    try:
        return tuple(parse_secret(one) for one in value)
    except InvalidValue as error:
        raise InvalidValue(expected) from error


def parse_archive_address(value: Any) -> str:
    """Check an archiveaddress."""
    if not isinstance(value, str) or not is_archive_address(value):
        raise InvalidValue('host [":" port] without http://, as mtc-m16c.sid.inpe.br:8080')
    return value


def parse_identifier_setting(value: Any) -> Identifier:
    """Check an IBI."""
    try:
        return parse_identifier(value if isinstance(value, str) else str(value))
    except ValueError as error:
        raise InvalidValue(f"an IBI ({error})") from error


def parse_service_ibi(value: Any) -> str:
    """Check the IBI of a service; give it in canonical case."""
    identifier = parse_identifier_setting(value)
    if identifier.form is Form.LEGACY:
        raise InvalidValue("a repository name or an IBIp, not a legacy identifier")
    return identifier.text


def parse_ip(value: Any) -> str:
    """Check an IP address; give it in canonical text."""
    try:
        return canonical_address(value if isinstance(value, str) else str(value))
    except ValueError as error:
        raise InvalidValue("an IPv4 or IPv6 address, as 150.163.34.243") from error


def parse_ascii_word(value: Any) -> str:
    """Check a word that a list of pairs can hold."""
    text = parse_text(value)
    if not ASCII_WORD.fullmatch(text):
        raise InvalidValue("one word of ASCII, as 2014:11.09.02.16.15")
    return text


def parse_email(value: Any) -> str:
    """Check an e-mail address."""
    if not isinstance(value, str) or not is_email(value):
        raise InvalidValue("an e-mail address, as banon@dpi.inpe.br")
    return value


def parse_registration_key(value: Any) -> str:
    """Check a key of [R] Table 5.1."""
    text = parse_text(value)
    if not is_key(text):
        raise InvalidValue('ten digits or more, perhaps "-" and ten more')
    return text


def parse_base_url(value: Any) -> str:
    """Check a URL without a query; give it without a slash at its end."""
    try:
        parts = urlsplit(value) if isinstance(value, str) else None
        right = parts is not None and parts.scheme in ("http", "https") and bool(parts.hostname)
        right = right and parts is not None and not parts.query and not parts.fragment
        right = right and parts is not None and parts.port != 0
    except ValueError:
        right = False
    if not right or not str(value).isascii() or any(sign.isspace() for sign in str(value)):
        raise InvalidValue("an http or https URL without a query, as http://urlib.net")
    return str(value).rstrip("/")


def parse_granularity_setting(value: Any) -> Fraction:
    """Check a granularity of the temporal distributor."""
    try:
        # a number in the environment is its digits
        return parse_granularity(parse_text(value))
    except ValueError as error:
        raise InvalidValue('"60", "1", "0.1", "0.01", "0.001" and so on, in seconds') from error


def parse_port(value: Any) -> int:
    """Check a port."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 65536:
        raise InvalidValue("a port, 1 to 65535")
    return value


def parse_seconds(value: Any) -> float:
    """Check a number of seconds."""
    try:
        seconds = -1.0 if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise InvalidValue("a number of seconds, 0 or more")
    return seconds


def parse_timeout(value: Any) -> float:
    """Check the seconds that something may take."""
    try:
        seconds = parse_seconds(value)
    except InvalidValue:
        seconds = 0.0
    if not 0 < seconds <= LONGEST_TIMEOUT:
        raise InvalidValue(f"a number of seconds, more than 0 and at most {LONGEST_TIMEOUT}")
    return seconds


def parse_flag(value: Any) -> bool:
    """Check a flag."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    words = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
    if isinstance(value, str) and value.lower() in words:
        return words[value.lower()]
    raise InvalidValue("true or false")


def parse_relations(value: Any) -> tuple[RelationPattern, ...]:
    """Check a list of relations."""
    expected = 'a list of relations, as ["", ".lastedition", ".metadata(*)"]'
    if not isinstance(value, list | tuple):
        raise InvalidValue(expected)
    try:
        return tuple(parse_relation_pattern(text) for text in value)
    except (TypeError, ValueError) as error:
        raise InvalidValue(f"{expected} ({error})") from error


def parse_folder(value: Any) -> str:
    """Check the path of a folder."""
    try:
        text = str(value) if isinstance(value, Path) else parse_text(value)
    except InvalidValue:
        text = "\0"
    if "\0" in text:
        raise InvalidValue("the path of a folder")
    return text


def parse_networks(value: Any) -> tuple[Network, ...]:
    """Check a list of networks."""
    items = value.replace(",", " ").split() if isinstance(value, str) else value
    if not isinstance(items, list | tuple):
        raise InvalidValue('a list of networks, as ["10.0.0.0/8"]')
    try:
        # a number would count as an address
        return tuple(ip_network(str(item)) for item in items)
    except ValueError as error:
        raise InvalidValue(
            f'a list of networks in CIDR form, as ["10.0.0.0/8"] ({error})'
        ) from error


def parse_hosts(value: Any) -> InnerHosts:
    """Check a list of hosts that are no public ones."""
    right = (
        'a list of names, addresses and networks, as ["files.corp", ".intranet", "192.168.0.0/16"]'
    )
    items = value.replace(",", " ").split() if isinstance(value, str) else value
    if not isinstance(items, list | tuple) or not all(isinstance(item, str) for item in items):
        raise InvalidValue(right)
    try:
        return parse_inner_hosts(items)
    except ValueError as error:
        raise InvalidValue(f"{right} ({error})") from error


def parse_scheme(key: str, value: Any) -> str:
    """Check the scheme of web addresses."""
    if value not in ("http", "https"):
        raise ConfigError(key, value, "http or https")
    return str(value)


def parse_sender(value: Any) -> str:
    """Check a sender: an address, or a name and an address as Flask's mail extensions take them."""
    if isinstance(value, list | tuple) and len(value) == 2:
        return formataddr((str(value[0]), parse_email(value[1])))
    return parse_text(value)


def parse_count(value: Any) -> int:
    """Check a whole number, 1 or more."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidValue("a whole number, 1 or more")
    return value


@dataclass(frozen=True)
class MailSettings:
    """Where e-mails are handed over (MAIL_SERVER and so on)."""

    server: str
    port: int
    use_tls: bool
    use_ssl: bool
    username: str | None
    password: str | None = field(repr=False)
    default_sender: str | None

    @classmethod
    def from_reader(cls, read: Callable[..., Any]) -> MailSettings | None:
        """Return the settings that a Flask config holds, None where it names no server.

        :param read: gives the checked value of a key.
        :raises ConfigError: at the first key whose value is wrong.
        """
        server = read("MAIL_SERVER", parse_text)
        if server is None:
            return None
        use_tls, use_ssl = (
            read("MAIL_USE_TLS", parse_flag, False),
            read("MAIL_USE_SSL", parse_flag, False),
        )
        if use_tls and use_ssl:
            raise ConfigError("MAIL_USE_TLS", True, "false where MAIL_USE_SSL is true")
        default = 465 if use_ssl else 587 if use_tls else 25
        return cls(
            server=server,
            port=read("MAIL_PORT", parse_port, default),
            use_tls=use_tls,
            use_ssl=use_ssl,
            username=read("MAIL_USERNAME", parse_text),
            password=read("MAIL_PASSWORD", parse_text),
            default_sender=read("MAIL_DEFAULT_SENDER", parse_sender),
        )


@dataclass(frozen=True)
class ArchiveConfig:
    """The settings of an Archive; the keys are those of the Flask config, in lower case, without
    IBI_.

    ``secret_keys`` are SECRET_KEY_FALLBACKS and SECRET_KEY, the newest last.
    """

    database_uri: str
    database_timeout: float
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
    register_on_start: bool
    registration_deadline: float
    resolver_email: str | None
    anonymise_ips: bool
    keep_accesses: int
    spool_folder: Path
    link_failures: int
    inner_hosts: InnerHosts
    mail: MailSettings | None
    url_scheme: str
    secret_keys: tuple[str | bytes, ...]

    @classmethod
    def from_mapping(cls, config: Mapping[str, Any], instance_path: str) -> ArchiveConfig:
        """Return the settings that a Flask config holds.

        :param instance_path: the folder where the database and the files are kept unless told
            otherwise.
        :raises ConfigError: at the first key whose value is missing or wrong.
        """
        read = SettingsReader(config).read
        address = read(
            "IBI_ARCHIVE_ADDRESS",
            parse_archive_address,
            config.get("SERVER_NAME") or "localhost:5000",
        )
        secret = read("SECRET_KEY", parse_secret)
        if secret is None:
            raise ConfigError("SECRET_KEY", None, "a long random text: URL keys are signed with it")
        return cls(
            database_uri=read(
                "IBI_DATABASE_URI", parse_text, f"sqlite:///{instance_path}/ibi_archive.sqlite"
            ),
            database_timeout=read("IBI_DATABASE_TIMEOUT", parse_timeout, DATABASE_TIMEOUT),
            archive_address=address,
            archive_service_ibi=read("IBI_ARCHIVE_SERVICE_IBI", parse_service_ibi),
            archive_ip=read("IBI_ARCHIVE_IP", parse_ip),
            archive_platform_version=read(
                "IBI_ARCHIVE_PLATFORM_VERSION", parse_ascii_word, default_platform_version()
            ),
            archive_admin_email=read("IBI_ARCHIVE_ADMIN_EMAIL", parse_email),
            platform_software_ibi=read("IBI_PLATFORM_SOFTWARE_IBI", parse_identifier_setting),
            registration_key=read("IBI_REGISTRATION_KEY", parse_registration_key),
            resolver_url=read(
                "IBI_RESOLVER_URL", parse_base_url, "http://urlib.net/J8LNKB5R7W/3FUQHC5"
            ),
            persistent_url_base=read("IBI_PERSISTENT_URL_BASE", parse_base_url, "http://urlib.net"),
            granularity=read("IBI_GRANULARITY", parse_granularity_setting, "0.001"),
            mint_host=read("IBI_MINT_HOST", parse_text, extract_host(address)),
            mint_port=read("IBI_MINT_PORT", parse_port),
            mint_max_wait=read("IBI_MINT_MAX_WAIT", parse_seconds, 10),
            relations=read("IBI_RELATIONS", parse_relations),
            filter_url_list=read("IBI_FILTER_URL_LIST", parse_flag, True),
            follow_editions=read("IBI_FOLLOW_EDITIONS", parse_flag, True),
            url_key_max_age=read("IBI_URL_KEY_MAX_AGE", parse_seconds, 3600),
            local_resolution=read("IBI_LOCAL_RESOLUTION", parse_flag, True),
            files_folder=Path(read("IBI_FILES_FOLDER", parse_folder, f"{instance_path}/ibi_files")),
            trusted_proxies=read("IBI_TRUSTED_PROXIES", parse_networks, ()),
            register_on_start=read("IBI_REGISTER_ON_START", parse_flag, False),
            registration_deadline=read("IBI_REGISTRATION_DEADLINE", parse_seconds, 60),
            resolver_email=read("IBI_RESOLVER_EMAIL", parse_email),
            anonymise_ips=read("IBI_ANONYMISE_IPS", parse_flag, True),
            keep_accesses=read("IBI_KEEP_ACCESSES", parse_count, 90),
            spool_folder=Path(read("IBI_SPOOL_FOLDER", parse_folder, f"{instance_path}/ibi_spool")),
            link_failures=read("IBI_LINK_FAILURES", parse_count, 3),
            inner_hosts=read("IBI_INNER_HOSTS", parse_hosts, ()),
            mail=MailSettings.from_reader(read),
            url_scheme=parse_scheme(
                "PREFERRED_URL_SCHEME", config.get("PREFERRED_URL_SCHEME") or "http"
            ),
            secret_keys=(*reversed(read("SECRET_KEY_FALLBACKS", parse_secrets, ())), secret),
        )

    @cached_property
    def base_url(self) -> str:
        """What the addresses in URL lists begin with."""
        return f"{self.url_scheme}://{self.archive_address}"

    def check_minting(self) -> tuple[str, str]:
        """Return the host and the IP that identifiers are made from.

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


#: The settings that only a resolver has (resolver/config.py); an Archive's app may hold them as
#: well.
RESOLVER_SETTINGS = {
    f"RESOLVER_{name}"
    for name in (
        "DATABASE_URI",
        "SERVICE_IBI",
        "ARCHIVE_TIMEOUT",
        "DEADLINE",
        "MAX_ANSWER",
        "MAX_ROUNDS",
        "INNER_HOSTS",
        "EMAIL",
    )
}

#: The keys that begin with IBI_; some of the settings are Flask's own, or those of its mail
#: extensions.
KEYS = sorted(
    f"IBI_{name}"
    for name in {field.name.upper() for field in fields(ArchiveConfig)} | RESOLVER_SETTINGS
    if name not in ("URL_SCHEME", "SECRET_KEYS", "MAIL")
)


def find_unknown_keys(config: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    """Return the keys of a Flask config that look like ours and are none, each with the one most
    like it.
    """
    for key in config:
        if key.startswith("IBI_") and key not in KEYS:
            yield key, next(iter(get_close_matches(key, KEYS, n=1)), None)


def default_platform_version() -> str:
    """Return the version of the package."""
    try:
        return f"flask_ibi_archive-{version('flask_ibi_archive')}"
    except PackageNotFoundError:
        return "flask_ibi_archive"
