"""The settings of an Archive, and the functions that read the values of settings.

The extension reads and checks all settings once, when the app starts. An error names the key of the
setting, the wrong value and the allowed values. The settings of a resolver use the same functions.
"""

# ruff: noqa: RUF009 - setting() returns a dataclasses.field()

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from urllib.parse import quote, urlsplit

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

#: Error messages do not show the values of these keys.
SECRETS = (
    "SECRET_KEY",
    "SECRET_KEY_FALLBACKS",
    "IBI_REGISTRATION_KEY",
    "IBI_DATABASE_URI",
    "IBI_RESOLVER_DATABASE_URI",
    "MAIL_PASSWORD",
)
#: The longest timeout in seconds. The timers of operating systems have an upper limit.
LONGEST_TIMEOUT = 3600
#: The default of IBI_VERSION_TABLE: the table that contains the revision of the tables.
VERSION_TABLE = "ibi_alembic_version"
#: Besides letters, digits and "-._~", a path may contain these characters unencoded (RFC 3986).
PATH_CHARACTERS = "/:@!$&'()*+,;="
#: The description of IBI_BASE_TEMPLATE for error messages.
TEMPLATE = "the name of a template in a template folder of the app, as layout.html"
#: The default of IBI_CONTENT_SECURITY_POLICY. A page may use the style sheets, images, fonts and
#: scripts of the app, but no inline scripts and nothing from other hosts. There is no form-action,
#: because browsers would then block a form that is redirected to the host of an item.
PAGE_POLICY = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "font-src 'self' data:; base-uri 'self'; frame-ancestors 'self'"
)
#: The default of IBI_DATABASE_TIMEOUT in seconds. Archives and resolvers use this setting.
DATABASE_TIMEOUT = 5


# --- reading -----------------------------------------------------------------------------------


class InvalidValue(ValueError):
    """The value of a setting is wrong. The text of the error describes the allowed values."""


class SettingsReader:
    """Reads and checks the values of a Flask config.

    :param config: the config.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config

    def read(
        self,
        key: str,
        parse: Callable[[Any], Any],
        default: Any = None,
        *,
        allows_empty: bool = False,
    ) -> Any:
        """Return the parsed value of a key.

        :param parse: a function that checks and converts the value. For a wrong value, the function
            raises :class:`InvalidValue`.
        :param default: the unparsed value if the key is missing or if its value is None or "".
        :param allows_empty: whether "" is a value of the setting.
        :raises ConfigError: if the value is wrong; the error names the key.
        """
        value = self.config.get(key)
        if value is None or (value == "" and not allows_empty):
            value = default
            if value is None:
                return None
        try:
            return parse(value)
        except InvalidValue as error:
            shown = "(hidden)" if key in SECRETS else value
            raise ConfigError(key, shown, str(error)) from error


def setting(
    parse: Callable[[Any], Any], default: Any = None, key: str = "", *, allows_empty: bool = False
) -> Any:
    """Declare a setting as a field of a dataclass.

    :param parse: a function that checks and converts the value.
    :param default: the unparsed value of a missing setting. In a text, ``{instance_path}`` stands
        for the instance folder of the app. If the default is a function, the function computes the
        value from the Flask config. None means that the setting is optional.
    :param key: the key in the Flask config. "" means ``IBI_`` and the name of the field in
        capitals.
    :param allows_empty: whether "" is a value of the setting. If not, "" means the default.
    """
    return field(
        metadata={"parse": parse, "default": default, "key": key, "allows_empty": allows_empty}
    )


def read_settings(
    settings: type[Any], config: Mapping[str, Any], instance_path: str
) -> dict[str, Any]:
    """Return the values of all fields that a class declares with :func:`setting`, by name.

    :param instance_path: the instance folder of the app. Some defaults contain this folder.
    :raises ConfigError: if a value is wrong. The error names the first key with a wrong value.
    """
    reader = SettingsReader(config)
    values = {}
    for declared in _declared_fields(settings):
        default = declared.metadata["default"]
        if callable(default):
            default = default(config)
        elif isinstance(default, str):
            default = default.replace("{instance_path}", instance_path)
        parse = declared.metadata["parse"]
        empty = declared.metadata["allows_empty"]
        key = _config_key(declared)
        values[declared.name] = reader.read(key, parse, default, allows_empty=empty)
    return values


def _declared_fields(settings: type[Any]) -> list[Field[Any]]:
    return [declared for declared in fields(settings) if declared.metadata]


def _config_key(declared: Field[Any]) -> str:
    return declared.metadata["key"] or f"IBI_{declared.name.upper()}"


# --- parsers of values -------------------------------------------------------------------------


def parse_text(value: Any) -> str:
    """Return a text, or the digits of a number.

    Flask reads digits in an environment variable as a number.

    :raises InvalidValue: if the value is neither a text nor a number.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidValue("a text")
    try:
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
parse_networks = make_parser(
    'a list of networks in CIDR form, as ["10.0.0.0/8"]', _convert_networks, shows_reason=True
)
#: The hosts in a private network to which the program may send requests.
parse_hosts = make_parser(
    'a list of names, addresses and networks, as ["files.corp", ".intranet", "192.168.0.0/16"]',
    _convert_hosts,
    shows_reason=True,
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


# --- the settings ------------------------------------------------------------------------------


@dataclass(frozen=True)
class MailSettings:
    """The settings of the e-mail server. The keys are those of Flask-Mail, such as MAIL_SERVER."""

    server: str
    port: int
    use_tls: bool
    use_ssl: bool
    username: str | None
    password: str | None = field(repr=False)
    default_sender: str | None

    @classmethod
    def from_reader(cls, read: Callable[..., Any]) -> MailSettings | None:
        """Return the e-mail settings of a Flask config; None if MAIL_SERVER is not set.

        :param read: :meth:`SettingsReader.read` of the config.
        :raises ConfigError: if a value is wrong. The error names the first key with a wrong value.
        """
        server = read("MAIL_SERVER", parse_text)
        if server is None:
            return None
        use_tls = read("MAIL_USE_TLS", parse_flag, False)
        use_ssl = read("MAIL_USE_SSL", parse_flag, False)
        if use_tls and use_ssl:
            raise ConfigError("MAIL_USE_TLS", True, "false, because MAIL_USE_SSL is true")
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
    """Return the default of IBI_ARCHIVE_ADDRESS: SERVER_NAME or localhost:5000."""
    return config.get("SERVER_NAME") or "localhost:5000"


def default_mint_host(config: Mapping[str, Any]) -> str:
    """Return the default of IBI_MINT_HOST: the host in the address of the Archive."""
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

    The key of a setting in the Flask config is ``IBI_`` and the name of the field in capitals. A
    field can declare another key.

    :ivar mail: the settings of the e-mail server; None if the Archive sends no e-mails.
    :ivar secret_keys: the secrets of SECRET_KEY_FALLBACKS and SECRET_KEY. The newest secret is the
        last.
    """

    archive_address: str = setting(parse_archive_address, default_address)
    archive_service_ibi: str | None = setting(parse_service_ibi)
    archive_ip: str | None = setting(parse_ip)
    archive_platform_version: str = setting(parse_ascii_word, default_platform_version)
    archive_admin_email: str | None = setting(parse_email)
    platform_software_ibi: Identifier | None = setting(parse_identifier_setting)
    database_uri: str = setting(parse_text, "sqlite:///{instance_path}/ibi_archive.sqlite")
    database_timeout: float = setting(parse_timeout, DATABASE_TIMEOUT)
    database_bind: str | None = setting(parse_text)
    version_table: str = setting(parse_table_name, VERSION_TABLE)
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
    application_root: str = setting(parse_root, "/", key="APPLICATION_ROOT")
    base_template: str | None = setting(parse_template)
    content_security_policy: str = setting(parse_policy, PAGE_POLICY, allows_empty=True)
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
        """Return the settings of a Flask config.

        :param instance_path: the instance folder of the app. Some defaults contain this folder.
        :raises ConfigError: if a key is missing or a value is wrong. The error names the first such
            key.
        """
        values = read_settings(cls, config, instance_path)
        read = SettingsReader(config).read
        secret = read("SECRET_KEY", parse_secret)
        if secret is None:
            raise ConfigError(
                "SECRET_KEY", None, "a long random text, because this text signs the URL keys"
            )
        older = read("SECRET_KEY_FALLBACKS", parse_secrets, ())
        mail = MailSettings.from_reader(read)
        return cls(**values, mail=mail, secret_keys=(*reversed(older), secret))

    @cached_property
    def base_url(self) -> str:
        """The scheme and the host of the URLs of the Archive."""
        return f"{self.url_scheme}://{self.archive_address}"

    def check_minting(self) -> tuple[str, str]:
        """Return the host name and the IP address that new identifiers contain.

        :raises ConfigError: if the host name cannot be used or the IP address is missing.
        """
        if self.archive_ip is None:
            raise ConfigError(
                "IBI_ARCHIVE_IP",
                None,
                "the IPv4 or IPv6 address of the Archive, as 150.163.34.243; new IBIps contain it",
            )
        try:
            # the identifier must not become too long with the longest date of this granularity
            build_repository_name(self.mint_host, self.mint_port or 80, 1 + self.granularity)
        except ValueError as error:
            raise ConfigError(
                "IBI_MINT_HOST",
                self.mint_host,
                f"a domain name of two words or more, as mtc-m18.sid.inpe.br ({error})",
            ) from error
        return self.mint_host, self.archive_ip


# --- keys --------------------------------------------------------------------------------------

#: The names of the settings of a resolver (resolver/config.py), without ``IBI_``.
RESOLVER_SETTINGS = {
    "RESOLVER_DATABASE_URI",
    "RESOLVER_SERVICE_IBI",
    "RESOLVER_ARCHIVE_TIMEOUT",
    "RESOLVER_DEADLINE",
    "RESOLVER_MAX_ANSWER",
    "RESOLVER_MAX_ROUNDS",
    "RESOLVER_INNER_HOSTS",
    "RESOLVER_EMAIL",
}

#: The keys of all settings of this package. Keys of Flask and Flask-Mail are not in this list.
KEYS = sorted(
    {key for key in map(_config_key, _declared_fields(ArchiveConfig)) if key.startswith("IBI_")}
    | {f"IBI_{name}" for name in RESOLVER_SETTINGS}
)


def find_unknown_keys(config: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    """Yield each key that begins with IBI_ but is not a setting, and a similar key.

    The similar key is the most similar key of a setting, or None if no key is similar.
    """
    for key in config:
        if key.startswith("IBI_") and key not in KEYS:
            yield key, next(iter(get_close_matches(key, KEYS, n=1)), None)
