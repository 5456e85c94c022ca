"""The settings of an Archive, and the parsers of values that the settings of a resolver share.

Each setting is read and checked once, when the app starts. Each error names the key.
"""

# ruff: noqa: RUF009 - setting() returns a dataclasses.field()

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
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

ASCII_WORD = re.compile(r"[\x21-\x7a\x7c\x7e]+")
#: Error messages do not show the values of these keys.
SECRETS = (
    "SECRET_KEY",
    "SECRET_KEY_FALLBACKS",
    "IBI_REGISTRATION_KEY",
    "IBI_DATABASE_URI",
    "IBI_RESOLVER_DATABASE_URI",
    "MAIL_PASSWORD",
)
#: Seconds; the timers of an operating system have an upper limit.
LONGEST_TIMEOUT = 3600
#: The default of IBI_DATABASE_TIMEOUT, which an Archive and a resolver of one app share.
DATABASE_TIMEOUT = 5


# --- reading -----------------------------------------------------------------------------------


class InvalidValue(ValueError):
    """The value of a setting is wrong; the text says what it should be."""


class SettingsReader:
    """Reads and checks the values of a Flask config.

    :param config: the config.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config

    def read(self, key: str, parse: Callable[[Any], Any], default: Any = None) -> Any:
        """Return the parsed value of a key.

        :param parse: raises :class:`InvalidValue` for a wrong value.
        :param default: the value, not yet parsed, of a key that is not set, None or "".
        :raises ConfigError: naming the key.
        """
        value = self.config.get(key)
        if value is None or value == "":
            value = default
            if value is None:
                return None
        try:
            return parse(value)
        except InvalidValue as error:
            shown = "(hidden)" if key in SECRETS else value
            raise ConfigError(key, shown, str(error)) from error


def setting(parse: Callable[[Any], Any], default: Any = None, key: str = "") -> Any:
    """Declare a field of a class of settings.

    :param parse: checks the value and converts it.
    :param default: the value, not yet parsed, of a setting that is not set; in a text
        ``{instance_path}`` stands for the app's instance folder. A function computes it from the
        Flask config. None: the setting is optional.
    :param key: the key in the Flask config; "": IBI_ and the field's name.
    """
    return field(metadata={"parse": parse, "default": default, "key": key})


def read_settings(
    settings: type[Any], config: Mapping[str, Any], instance_path: str
) -> dict[str, Any]:
    """Return the values of all fields of a class that :func:`setting` declares.

    :param instance_path: the folder for databases and files that no setting names.
    :raises ConfigError: for the first key whose value is wrong.
    """
    reader = SettingsReader(config)
    values = {}
    for one in _declared(settings):
        default = one.metadata["default"]
        if callable(default):
            default = default(config)
        elif isinstance(default, str):
            default = default.replace("{instance_path}", instance_path)
        values[one.name] = reader.read(_key_of(one), one.metadata["parse"], default)
    return values


def _declared(settings: type[Any]) -> list[Field[Any]]:
    return [one for one in fields(settings) if one.metadata]


def _key_of(one: Field[Any]) -> str:
    return one.metadata["key"] or f"IBI_{one.name.upper()}"


# --- parsers of values -------------------------------------------------------------------------


def parse_text(value: Any) -> str:
    """Return a text; a number, which the environment may contain, becomes its digits."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidValue("a text")
    try:
        return f"{Decimal(repr(value)):f}" if isinstance(value, float) else str(value)
    except ValueError as error:  # an int of more digits than Python converts
        raise InvalidValue("a text") from error


def parse_secret(value: Any) -> str | bytes:
    """Return a secret, as text or bytes."""
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
    """Return a list of secrets."""
    expected = "a list of the texts that SECRET_KEY had before"
    # not one text, whose letters would become secrets
    if not isinstance(value, list | tuple):
        raise InvalidValue(expected)
    try:
        return tuple(parse_secret(one) for one in value)
    except InvalidValue as error:
        raise InvalidValue(expected) from error


def parse_archive_address(value: Any) -> str:
    """Return an archiveaddress."""
    if not isinstance(value, str) or not is_archive_address(value):
        raise InvalidValue('host [":" port] without http://, as mtc-m16c.sid.inpe.br:8080')
    return value


def parse_identifier_setting(value: Any) -> Identifier:
    """Return an identifier."""
    try:
        return parse_identifier(str(value))
    except ValueError as error:
        raise InvalidValue(f"an IBI ({error})") from error


def parse_service_ibi(value: Any) -> str:
    """Return the IBI of a service in canonical case."""
    identifier = parse_identifier_setting(value)
    if identifier.form is Form.LEGACY:
        raise InvalidValue("a repository name or an IBIp, not a legacy identifier")
    return identifier.text


def parse_ip(value: Any) -> str:
    """Return an IP address in its canonical form."""
    try:
        return canonical_address(str(value))
    except ValueError as error:
        raise InvalidValue("an IPv4 or IPv6 address, as 150.163.34.243") from error


def parse_ascii_word(value: Any) -> str:
    """Return a word that a list of pairs can contain without encoding."""
    text = parse_text(value)
    if not ASCII_WORD.fullmatch(text):
        raise InvalidValue("one word of ASCII, as 2014:11.09.02.16.15")
    return text


def parse_email(value: Any) -> str:
    """Return an e-mail address."""
    if not isinstance(value, str) or not is_email(value):
        raise InvalidValue("an e-mail address, as banon@dpi.inpe.br")
    return value


def parse_registration_key(value: Any) -> str:
    """Return a registration key ([R] Table 5.1)."""
    text = parse_text(value)
    if not is_key(text):
        raise InvalidValue('ten digits or more, perhaps "-" and ten more')
    return text


def parse_base_url(value: Any) -> str:
    """Return a URL without a query, without a slash at its end."""
    text = value if isinstance(value, str) else ""
    try:
        parts = urlsplit(text)
        is_right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_right = False
    if not is_right or not text.isascii() or re.search(r"[?#\s]", text):
        raise InvalidValue("an http or https URL without a query, as http://urlib.net")
    return text.rstrip("/")


def parse_granularity_setting(value: Any) -> Fraction:
    """Return a granularity of the temporal distributor, in seconds."""
    try:
        return parse_granularity(parse_text(value))
    except ValueError as error:
        raise InvalidValue('"60", "1", "0.1", "0.01", "0.001" and so on, in seconds') from error


def parse_port(value: Any) -> int:
    """Return a port."""
    port = _find_whole_number(value)
    if port is None or not 0 < port < 65536:
        raise InvalidValue("a port, 1 to 65535")
    return port


def parse_count(value: Any) -> int:
    """Return a whole number of 1 or more."""
    count = _find_whole_number(value)
    if count is None or count < 1:
        raise InvalidValue("a whole number, 1 or more")
    return count


def _find_whole_number(value: Any) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def parse_seconds(value: Any) -> float:
    """Return a number of seconds, 0 or more."""
    seconds = _find_seconds(value)
    if seconds is None:
        raise InvalidValue("a number of seconds, 0 or more")
    return seconds


def parse_timeout(value: Any) -> float:
    """Return a number of seconds, more than 0 and at most :data:`LONGEST_TIMEOUT`."""
    seconds = _find_seconds(value)
    if seconds is None or not 0 < seconds <= LONGEST_TIMEOUT:
        raise InvalidValue(f"a number of seconds, more than 0 and at most {LONGEST_TIMEOUT}")
    return seconds


def _find_seconds(value: Any) -> float | None:
    try:
        seconds = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return seconds if 0 <= seconds < float("inf") and not isinstance(value, bool) else None


def parse_flag(value: Any) -> bool:
    """Return True or False."""
    words = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
    if isinstance(value, str) and value.lower() in words:
        return words[value.lower()]
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    raise InvalidValue("true or false")


def parse_relations(value: Any) -> tuple[RelationPattern, ...]:
    """Return a list of relations."""
    expected = 'a list of relations, as ["", ".lastedition", ".metadata(*)"]'
    if not isinstance(value, list | tuple):
        raise InvalidValue(expected)
    try:
        return tuple(parse_relation_pattern(text) for text in value)
    except (TypeError, ValueError) as error:
        raise InvalidValue(f"{expected} ({error})") from error


def parse_folder(value: Any) -> Path:
    """Return the path of a folder."""
    try:
        text = str(value) if isinstance(value, Path) else parse_text(value)
    except InvalidValue:
        text = "\0"
    if "\0" in text:
        raise InvalidValue("the path of a folder")
    return Path(text)


def parse_networks(value: Any) -> tuple[Network, ...]:
    """Return a list of networks."""
    items = _split(value)
    if not isinstance(items, list | tuple):
        raise InvalidValue('a list of networks, as ["10.0.0.0/8"]')
    try:
        # as text: ip_network takes a number for an address
        return tuple(ip_network(str(item)) for item in items)
    except ValueError as error:
        raise InvalidValue(
            f'a list of networks in CIDR form, as ["10.0.0.0/8"] ({error})'
        ) from error


def parse_hosts(value: Any) -> InnerHosts:
    """Return a list of hosts in a private network that may be called nevertheless."""
    expected = (
        'a list of names, addresses and networks, as ["files.corp", ".intranet", "192.168.0.0/16"]'
    )
    items = _split(value)
    if not isinstance(items, list | tuple) or not all(isinstance(item, str) for item in items):
        raise InvalidValue(expected)
    try:
        return parse_inner_hosts(items)
    except ValueError as error:
        raise InvalidValue(f"{expected} ({error})") from error


def _split(value: Any) -> Any:
    return value.replace(",", " ").split() if isinstance(value, str) else value


def parse_scheme(value: Any) -> str:
    """Return the scheme of web addresses."""
    if value not in ("http", "https"):
        raise InvalidValue("http or https")
    return str(value)


def parse_sender(value: Any) -> str:
    """Return the sender of e-mails: an address, or a name and an address as Flask-Mail allows."""
    if isinstance(value, list | tuple) and len(value) == 2:
        return formataddr((str(value[0]), parse_email(value[1])))
    return parse_text(value)


# --- the settings ------------------------------------------------------------------------------


@dataclass(frozen=True)
class MailSettings:
    """The server that sends e-mails: the settings of Flask-Mail, MAIL_SERVER and so on."""

    server: str
    port: int
    use_tls: bool
    use_ssl: bool
    username: str | None
    password: str | None = field(repr=False)
    default_sender: str | None

    @classmethod
    def from_reader(cls, read: Callable[..., Any]) -> MailSettings | None:
        """Return the settings in a Flask config, None if it names no server.

        :param read: :meth:`SettingsReader.read` of the config.
        :raises ConfigError: for the first key whose value is wrong.
        """
        server = read("MAIL_SERVER", parse_text)
        if server is None:
            return None
        use_tls = read("MAIL_USE_TLS", parse_flag, False)
        use_ssl = read("MAIL_USE_SSL", parse_flag, False)
        if use_tls and use_ssl:
            raise ConfigError("MAIL_USE_TLS", True, "false where MAIL_USE_SSL is true")
        return cls(
            server=server,
            port=read("MAIL_PORT", parse_port, 465 if use_ssl else 587 if use_tls else 25),
            use_tls=use_tls,
            use_ssl=use_ssl,
            username=read("MAIL_USERNAME", parse_text),
            password=read("MAIL_PASSWORD", parse_text),
            default_sender=read("MAIL_DEFAULT_SENDER", parse_sender),
        )


def default_address(config: Mapping[str, Any]) -> str:
    """Return the default of IBI_ARCHIVE_ADDRESS."""
    return config.get("SERVER_NAME") or "localhost:5000"


def default_mint_host(config: Mapping[str, Any]) -> str:
    """Return the default of IBI_MINT_HOST: the host of the Archive's address."""
    return extract_host(config.get("IBI_ARCHIVE_ADDRESS") or default_address(config))


def default_platform_version(config: Mapping[str, Any]) -> str:
    """Return the default of IBI_ARCHIVE_PLATFORM_VERSION: the version of this package."""
    try:
        return f"flask_ibi_archive-{version('flask_ibi_archive')}"
    except PackageNotFoundError:
        return "flask_ibi_archive"


@dataclass(frozen=True, kw_only=True)
class ArchiveConfig:
    """The settings of an Archive.

    A key of the Flask config is IBI_ and the name of the field in capitals, unless the declaration
    names it.

    :ivar mail: the e-mail server, None if there is none.
    :ivar secret_keys: SECRET_KEY_FALLBACKS and SECRET_KEY, the newest last.
    """

    archive_address: str = setting(parse_archive_address, default_address)
    archive_service_ibi: str | None = setting(parse_service_ibi)
    archive_ip: str | None = setting(parse_ip)
    archive_platform_version: str = setting(parse_ascii_word, default_platform_version)
    archive_admin_email: str | None = setting(parse_email)
    platform_software_ibi: Identifier | None = setting(parse_identifier_setting)
    database_uri: str = setting(parse_text, "sqlite:///{instance_path}/ibi_archive.sqlite")
    database_timeout: float = setting(parse_timeout, DATABASE_TIMEOUT)
    files_folder: Path = setting(parse_folder, "{instance_path}/ibi_files")
    granularity: Fraction = setting(parse_granularity_setting, "0.001")
    mint_host: str = setting(parse_text, default_mint_host)
    mint_port: int | None = setting(parse_port)
    mint_max_wait: float = setting(parse_seconds, 10)
    relations: tuple[RelationPattern, ...] | None = setting(parse_relations)
    filter_url_list: bool = setting(parse_flag, True)
    follow_editions: bool = setting(parse_flag, True)
    url_key_max_age: float = setting(parse_seconds, 3600)
    url_scheme: str = setting(parse_scheme, "http", key="PREFERRED_URL_SCHEME")
    trusted_proxies: tuple[Network, ...] = setting(parse_networks, ())
    local_resolution: bool = setting(parse_flag, True)
    resolver_url: str = setting(parse_base_url, "http://urlib.net/J8LNKB5R7W/3FUQHC5")
    persistent_url_base: str = setting(parse_base_url, "http://urlib.net")
    resolver_email: str | None = setting(parse_email)
    registration_key: str | None = setting(parse_registration_key)
    register_on_start: bool = setting(parse_flag, False)
    registration_deadline: float = setting(parse_seconds, 60)
    anonymise_ips: bool = setting(parse_flag, True)
    keep_accesses: int = setting(parse_count, 90)
    spool_folder: Path = setting(parse_folder, "{instance_path}/ibi_spool")
    link_failures: int = setting(parse_count, 3)
    inner_hosts: InnerHosts = setting(parse_hosts, ())
    mail: MailSettings | None
    secret_keys: tuple[str | bytes, ...]

    @classmethod
    def from_mapping(cls, config: Mapping[str, Any], instance_path: str) -> ArchiveConfig:
        """Return the settings in a Flask config.

        :param instance_path: the folder for databases and files that no setting names.
        :raises ConfigError: for the first key whose value is missing or wrong.
        """
        values = read_settings(cls, config, instance_path)
        read = SettingsReader(config).read
        secret = read("SECRET_KEY", parse_secret)
        if secret is None:
            raise ConfigError("SECRET_KEY", None, "a long random text: URL keys are signed with it")
        older = read("SECRET_KEY_FALLBACKS", parse_secrets, ())
        mail = MailSettings.from_reader(read)
        return cls(**values, mail=mail, secret_keys=(*reversed(older), secret))

    @cached_property
    def base_url(self) -> str:
        """Scheme and host with which the addresses in URL lists begin."""
        return f"{self.url_scheme}://{self.archive_address}"

    def check_minting(self) -> tuple[str, str]:
        """Return the host and the IP address from which identifiers are made.

        :raises ConfigError: if one of the two is missing or cannot be used.
        """
        if self.archive_ip is None:
            raise ConfigError(
                "IBI_ARCHIVE_IP",
                None,
                "the Archive's IPv4 or IPv6 address, as 150.163.34.243: IBIps are made from it",
            )
        try:
            # with the longest suffix that this granularity can produce
            build_repository_name(self.mint_host, self.mint_port or 80, 1 + self.granularity)
        except ValueError as error:
            raise ConfigError(
                "IBI_MINT_HOST",
                self.mint_host,
                f"a domain name of two words or more, as mtc-m18.sid.inpe.br ({error})",
            ) from error
        return self.mint_host, self.archive_ip


# --- keys --------------------------------------------------------------------------------------

#: The settings of a resolver (resolver/config.py), which the app of an Archive may contain as well.
RESOLVER_SETTINGS = (
    "RESOLVER_DATABASE_URI",
    "RESOLVER_SERVICE_IBI",
    "RESOLVER_ARCHIVE_TIMEOUT",
    "RESOLVER_DEADLINE",
    "RESOLVER_MAX_ANSWER",
    "RESOLVER_MAX_ROUNDS",
    "RESOLVER_INNER_HOSTS",
    "RESOLVER_EMAIL",
)

#: All keys of this package; the keys of Flask and Flask-Mail are not among them.
KEYS = sorted(
    {key for key in map(_key_of, _declared(ArchiveConfig)) if key.startswith("IBI_")}
    | {f"IBI_{name}" for name in RESOLVER_SETTINGS}
)


def find_unknown_keys(config: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    """Yield the keys that begin with IBI_ but are no settings, each with the most similar setting.

    The second value is None if no setting is similar.
    """
    for key in config:
        if key.startswith("IBI_") and key not in KEYS:
            yield key, next(iter(get_close_matches(key, KEYS, n=1)), None)
