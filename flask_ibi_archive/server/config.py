"""The settings of an Archive, the settings shared with resolvers, and functions to read settings.

``ArchiveConfig.resolver_url`` (IBI_RESOLVER_URL) is the resolver that an Archive registers with;
the default is the resolver of the standard.

Each setting is declared once, as a field of a class. The extensions read and check all settings
once, when the app starts. An error names the key of the setting, the wrong value and the allowed
values.
"""

# ruff: noqa: RUF009 - setting() returns a dataclasses.field()

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from difflib import get_close_matches
from email.utils import formataddr
from fractions import Fraction
from functools import cached_property, partial
from importlib.metadata import version
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any, NoReturn, TypeVar
from urllib.parse import quote, urlsplit

from flask_ibi_archive.core.identifiers import grammar
from flask_ibi_archive.core.identifiers.dates import parse_granularity
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol import hosts
from flask_ibi_archive.core.protocol.inclusion import RESOLVER_URL, is_email, is_key
from flask_ibi_archive.core.protocol.relations import RelationPattern, parse_relation_pattern
from flask_ibi_archive.errors import ConfigError

Network = IPv4Network | IPv6Network

#: The keys of the Archive and of the resolver in ``app.extensions``.
EXTENSION = "ibi_archive"
RESOLVER_EXTENSION = "ibi_resolver"
#: The key of the Archive that a resolver in the same app asks without HTTP.
OWN_ARCHIVE = "ibi_own_archive"
#: The longest timeout in seconds. The timers of operating systems have an upper limit.
LONGEST_TIMEOUT = 3600
#: Besides letters, digits and "-._~", a path may contain these characters unencoded (RFC 3986).
PATH_CHARACTERS = "/:@!$&'()*+,;="
#: The description of IBI_BASE_TEMPLATE for error messages.
TEMPLATE = "the name of a template in a template folder of the app, as layout.html"
#: The default of IBI_CONTENT_SECURITY_POLICY. A page may use the style sheets, images, fonts and
#: scripts of the app, but no inline styles or scripts and nothing from other hosts. There is no
#: form-action, because browsers would then block a form that is redirected to the host of an item.
PAGE_POLICY = (
    "default-src 'self'; img-src 'self' data:; font-src 'self' data:; object-src 'none'; "
    "base-uri 'self'; frame-ancestors 'self'"
)
#: The default of IBI_DATABASE_TIMEOUT in seconds. Archives and resolvers use this setting.
DATABASE_TIMEOUT = 5

#: The host name in the identifiers of a trial on one computer, and the beginning of their rep form.
TRIAL_HOST, TRIAL_PREFIX = "localhost.localdomain", "localdomain/localhost"

Settings = TypeVar("Settings", bound="SharedConfig")


# --- values ------------------------------------------------------------------------------------
# Each parser checks a value and converts it, or raises InvalidValue.


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
    # Decimal writes all digits: str() would write 0.00001 as 1e-05
    return f"{Decimal(repr(value)):f}" if isinstance(value, float) else str(value)


#: A function that checks and converts the value of a setting.
Parser = Callable[[Any], Any]


def make_parser(
    expected: str,
    convert: Callable[[Any], Any],
    accepts: Callable[[Any], object] = lambda converted: True,
    *,
    shows_reason: bool = False,
) -> Parser:
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
    if identifier.form is grammar.Form.LEGACY:
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


def _convert_hosts(value: Any) -> hosts.InnerHosts:
    return hosts.parse_inner_hosts([_require_text(item) for item in _split_words(value)])


def _convert_own_hosts(value: Any) -> frozenset[str]:
    names = [_require_text(item) for item in _split_words(value)]
    if not all(map(hosts.is_archive_address, names)):
        raise TypeError
    return frozenset(map(hosts.normalize_host, names))


def _convert_relations(value: Any) -> tuple[RelationPattern, ...]:
    return tuple(parse_relation_pattern(text) for text in _require_list(value))


parse_secret: Parser = make_parser("a long random text", _convert_secret, bool)
parse_secrets: Parser = make_parser(
    # a single text is not allowed, because each letter of the text would become a secret
    "a list of the earlier values of SECRET_KEY",
    lambda value: tuple(parse_secret(item) for item in _require_list(value)),
)
parse_archive_address: Parser = make_parser(
    'host [":" port] without http://, as mtc-m16c.sid.inpe.br:8080',
    _require_text,
    hosts.is_archive_address,
)
parse_identifier_setting: Parser = make_parser(
    "an IBI", lambda value: parse_identifier(str(value)), shows_reason=True
)
#: This parser returns the IBIs in canonical case.
parse_identifiers: Parser = make_parser(
    'a list of IBIs, as ["8JMKD3MGP8W/34PGRBS"]',
    lambda value: frozenset(parse_identifier(str(word)).text for word in _split_words(value)),
    shows_reason=True,
)
#: This parser returns the IBI in canonical case.
parse_service_ibi: Parser = make_parser(
    "a repository name or an IBIp, not a legacy identifier", _convert_service_ibi, shows_reason=True
)
parse_ip: Parser = make_parser(
    "an IPv4 or IPv6 address, as 150.163.34.243",
    lambda value: grammar.canonical_address(str(value)),
)
#: A word that needs no encoding in a message of the protocol (a list of pairs).
parse_ascii_word: Parser = make_parser(
    "one word of ASCII, as 2014:11.09.02.16.15",
    parse_text,
    re.compile(r"[\x21-\x7a\x7c\x7e]+").fullmatch,
)
parse_email = make_parser("an e-mail address, as banon@dpi.inpe.br", _require_text, is_email)
#: Source: [R] Table 5.1.
parse_registration_key: Parser = make_parser(
    'ten digits or more, optionally followed by "-" and ten digits or more', parse_text, is_key
)
parse_base_url: Parser = make_parser(
    "an http or https URL without a query, as http://urlib.net",
    lambda value: _require_text(value).rstrip("/"),
    _is_base_url,
)
parse_granularity_setting: Parser = make_parser(
    'a number of seconds: "60", "1", "0.1", "0.01", "0.001" and so on',
    lambda value: parse_granularity(parse_text(value)),
)
parse_port = make_parser("a port, 1 to 65535", _convert_whole_number, lambda port: 0 < port < 65536)
#: This parser returns the port of repository names and the port of IBIps.
parse_ports: Parser = make_parser("a port, 1 to 65535, or two ports, as 80,802", _convert_ports)
parse_count: Parser = make_parser(
    "a whole number, 1 or more", _convert_whole_number, lambda count: count >= 1
)
parse_seconds: Parser = make_parser(
    "a number of seconds, 0 or more", _convert_seconds, lambda seconds: 0 <= seconds < float("inf")
)
parse_timeout: Parser = make_parser(
    f"a number of seconds, more than 0 and at most {LONGEST_TIMEOUT}",
    _convert_seconds,
    lambda seconds: 0 < seconds <= LONGEST_TIMEOUT,
)
parse_flag: Parser = make_parser("true or false", _convert_flag)
parse_relations: Parser = make_parser(
    'a list of relations, as ["", ".lastedition", ".metadata(*)"]',
    _convert_relations,
    shows_reason=True,
)
parse_folder: Parser = make_parser(
    "the path of a folder",
    lambda value: value if isinstance(value, Path) else Path(parse_text(value)),
    lambda path: "\0" not in str(path),
)
parse_networks: Parser = make_parser(
    'a list of networks in CIDR form, as ["10.0.0.0/8"]', _convert_networks, shows_reason=True
)
#: The hosts in a private network to which the program may send requests.
parse_hosts: Parser = make_parser(
    'a list of names, addresses and networks, as ["files.corp", ".intranet", "192.168.0.0/16"]',
    _convert_hosts,
    shows_reason=True,
)
#: Hosts, perhaps with a port, in the form of :func:`normalize_host`.
parse_own_hosts: Parser = make_parser(
    'a list of hosts without http://, as ["old.example.org", "old.example.org:8080"]',
    _convert_own_hosts,
)
parse_landing: Parser = make_parser("file or page", _require_text, ("file", "page").__contains__)
parse_scheme: Parser = make_parser("http or https", _require_text, ("http", "https").__contains__)
#: This parser returns the percent-encoded path without a slash at the end, "" for the root.
parse_root: Parser = make_parser(
    "the path under which the app is mounted, as /repository",
    lambda value: quote(_require_text(value).rstrip("/"), safe=PATH_CHARACTERS),
    re.compile("(?:/[^/]+)*").fullmatch,
)
parse_policy: Parser = make_parser(
    'a Content-Security-Policy in one line, or "" for no policy',
    _require_text,
    lambda text: text.isascii() and (not text or text.isprintable()),
)
parse_template: Parser = make_parser(TEMPLATE, lambda value: _require_text(value).strip(), bool)


def parse_sender(value: Any) -> str:
    """Return the sender of e-mails. A pair (name, address) is allowed, as in Flask-Mail."""
    if isinstance(value, list | tuple) and len(value) == 2:
        return formataddr((str(value[0]), parse_email(value[1])))
    return parse_text(value)


# --- reading -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Setting:
    """How a setting is read.

    :param parse: a function that checks and converts the value. For a wrong value, the function
        raises :class:`InvalidValue`.
    :param default: the value of a missing setting, which is then parsed. In a text,
        ``{instance_path}`` stands for the instance folder of the app. A function computes the
        default from the Flask config. None means that the setting is optional.
    :param key: the key in the Flask config. "" means the prefix and the name of the field in
        capitals.
    :param allows_empty: whether "" is a value of the setting. If not, "" means the default.
    :param is_secret: whether error messages do not show the value.
    """

    parse: Callable[[Any], Any]
    default: Any = None
    key: str = ""
    prefix: str = "IBI_"
    allows_empty: bool = False
    is_secret: bool = False

    def read(self, config: Mapping[str, Any], instance_path: str = "") -> Any:
        """Return the parsed value in a Flask config; None if it is optional and missing."""
        value = config.get(self.key)
        if value is None or (value == "" and not self.allows_empty):
            value = self.default
            if callable(value):
                value = value(config)
            if isinstance(value, str):
                value = value.replace("{instance_path}", instance_path)
            if value is None:
                return None
        try:
            return self.parse(value)
        except InvalidValue as error:
            shown = "(hidden)" if self.is_secret else value
            raise ConfigError(self.key, shown, str(error)) from error


def setting(*facts: Any, **named_facts: Any) -> Any:
    """Declare a setting as a field of a dataclass; the parameters are those of :class:`Setting`."""
    return field(metadata={"setting": Setting(*facts, **named_facts)})


def list_settings(declaring: type[Any]) -> dict[str, Setting]:
    """Return the settings that a class declares: a dictionary from the field to the setting."""
    found = {one.name: one.metadata["setting"] for one in fields(declaring) if one.metadata}
    return {
        name: replace(one, key=one.key or one.prefix + name.upper()) for name, one in found.items()
    }


def read_setting(declaring: type[Any], name: str, config: Mapping[str, Any]) -> Any:
    """Return the parsed value of one setting; None if it is optional and missing.

    :param declaring: the class that declares the setting.
    :param name: the field of the setting.
    :raises ConfigError: if the value is wrong. The error names the key.
    """
    return list_settings(declaring)[name].read(config)


def read_settings(
    declaring: type[Any], config: Mapping[str, Any], instance_path: str = ""
) -> dict[str, Any]:
    """Read all settings that a class declares: a dictionary from the field to the value.

    :param instance_path: the instance folder of the app. Some defaults contain this folder.
    :raises ConfigError: if a value is wrong. The error names the first key with a wrong value.
    """
    return {
        name: declared.read(config, instance_path)
        for name, declared in list_settings(declaring).items()
    }


# --- the settings of Archives and of resolvers -------------------------------------------------


def default_mail_port(config: Mapping[str, Any]) -> int:
    """Return the default of MAIL_PORT, which depends on MAIL_USE_SSL and MAIL_USE_TLS."""
    if read_setting(MailSettings, "use_ssl", config):
        return 465
    return 587 if read_setting(MailSettings, "use_tls", config) else 25


mail_setting = partial(setting, prefix="MAIL_")


@dataclass(frozen=True, kw_only=True, repr=False)  # the settings contain a secret
class MailSettings:
    """The settings of the e-mail server. The keys are those of Flask-Mail, such as MAIL_SERVER."""

    server: str = mail_setting(parse_text)
    use_tls: bool = mail_setting(parse_flag, False)
    use_ssl: bool = mail_setting(parse_flag, False)
    port: int = mail_setting(parse_port, default_mail_port)
    username: str | None = mail_setting(parse_text)
    password: str | None = mail_setting(parse_text, is_secret=True)
    default_sender: str | None = mail_setting(parse_sender)

    def __post_init__(self) -> None:
        if self.use_tls and self.use_ssl:
            raise ConfigError("MAIL_USE_TLS", True, "false, because MAIL_USE_SSL is true")


@dataclass(frozen=True, kw_only=True, repr=False)  # the settings contain secrets
class SharedConfig:
    """The settings that both an Archive and a resolver have, under the same keys.

    The key of a setting in the Flask config is ``IBI_`` and the name of the field in capitals. A
    field can declare another key.

    :ivar archive_name: the name of the Archive or resolver in pages. The name of an Archive is also
        used in OAI-PMH and in citations.
    :ivar inner_hosts: the internal hosts and networks to which requests may be sent.
    :ivar mail: the settings of the e-mail server; None if no e-mail server is set.
    """

    database_timeout: float = setting(parse_timeout, DATABASE_TIMEOUT)
    archive_name: str | None = setting(parse_text)
    trusted_proxies: tuple[Network, ...] = setting(parse_networks, ())
    base_template: str | None = setting(parse_template)
    content_security_policy: str = setting(parse_policy, PAGE_POLICY, allows_empty=True)
    inner_hosts: hosts.InnerHosts = setting(parse_hosts, ())
    url_scheme: str = setting(parse_scheme, "http", key="PREFERRED_URL_SCHEME")
    mail: MailSettings | None

    @classmethod
    def from_mapping(
        cls: type[Settings], config: Mapping[str, Any], instance_path: str, **derived: Any
    ) -> Settings:
        """Read and check the settings in a Flask config, and return them.

        :param instance_path: the instance folder of the app. Some defaults contain this folder.
        :param derived: the values of fields that are not settings.
        :raises ConfigError: if a key is missing or a value is wrong. The error names the first such
            key.
        """
        read = read_settings(cls, config, instance_path)
        has_mail = config.get("MAIL_SERVER")
        mail = MailSettings(**read_settings(MailSettings, config)) if has_mail else None
        return cls(**read, mail=mail, **derived)


# --- the settings of an Archive ----------------------------------------------------------------


def default_address(config: Mapping[str, Any]) -> str:
    """Return the default of IBI_ARCHIVE_ADDRESS: SERVER_NAME or localhost:5000."""
    return config.get("SERVER_NAME") or "localhost:5000"


def find_address(config: Mapping[str, Any]) -> str:
    """Return the address of the Archive from the config, without a check."""
    return config.get("IBI_ARCHIVE_ADDRESS") or default_address(config)


def default_mint_host(config: Mapping[str, Any]) -> str:
    """Return the default of IBI_MINT_HOST: the host in the address of the Archive.

    If the address and the IP address both belong to the computer itself (localhost), the Archive is
    a trial. Its identifiers then contain a host name that cannot be public.
    """
    host = hosts.extract_host(find_address(config))
    is_trial = hosts.is_loopback(host) and hosts.is_loopback(config.get("IBI_ARCHIVE_IP"))
    return TRIAL_HOST if is_trial else host


def default_mint_port(config: Mapping[str, Any]) -> int | str:
    """Return the default of IBI_MINT_PORT: the port in the address of the Archive."""
    return hosts.extract_port(find_address(config)) or "80,800"


def default_platform_version(config: Mapping[str, Any]) -> str:
    """Return the default of IBI_ARCHIVE_PLATFORM_VERSION: the version of this package."""
    return f"flask_ibi_archive-{version('flask_ibi_archive')}"


def require_secret(config: Mapping[str, Any]) -> NoReturn:
    """Refuse a config without SECRET_KEY."""
    expected = "a long random text, because this text signs the URL keys"
    raise ConfigError("SECRET_KEY", None, expected)


@dataclass(frozen=True, kw_only=True, repr=False)  # the settings contain secrets
class ArchiveConfig(SharedConfig):
    """The settings of an Archive.

    :ivar folder: the folder for files and keys.
    :ivar mint_port: two ports: the port in repository names, then the port in IBIps.
    """

    archive_address: str = setting(parse_archive_address, default_address)
    publisher: str | None = setting(parse_text)
    archive_service_ibi: str | None = setting(parse_service_ibi)
    archive_ip: str | None = setting(parse_ip)
    archive_platform_version: str = setting(parse_ascii_word, default_platform_version)
    archive_admin_email: str | None = setting(parse_email)
    platform_software_ibi: grammar.Identifier | None = setting(parse_identifier_setting)
    database_uri: str = setting(
        parse_text, "sqlite:///{instance_path}/ibi_archive.sqlite", is_secret=True
    )
    database_bind: str | None = setting(parse_text)
    read_database_uri: str | None = setting(parse_text, is_secret=True)
    folder: Path = setting(parse_folder, "{instance_path}")
    # the folder is checked before this setting
    files_folder: Path = setting(
        parse_folder, lambda config: f"{config.get('IBI_FOLDER') or '{instance_path}'}/ibi_files"
    )
    granularity: Fraction = setting(parse_granularity_setting, "0.001")
    mint_host: str = setting(parse_text, default_mint_host)
    mint_port: tuple[int, int] = setting(parse_ports, default_mint_port)
    mint_max_wait: float = setting(parse_seconds, 10)
    relations: tuple[RelationPattern, ...] | None = setting(parse_relations)
    filter_url_list: bool = setting(parse_flag, True)
    follow_editions: bool = setting(parse_flag, True)
    url_key_max_age: float = setting(parse_seconds, 3600)
    lands_on: str = setting(parse_landing, "file")
    application_root: str = setting(parse_root, "/", key="APPLICATION_ROOT")
    local_resolution: bool = setting(parse_flag, True)
    former_hosts: frozenset[str] = setting(parse_own_hosts, ())
    identification: bool = setting(parse_flag, False)
    resolver_url: str = setting(parse_base_url, RESOLVER_URL)
    persistent_url_base: str | None = setting(parse_base_url)
    resolver_email: str | None = setting(parse_email)
    registration_key: str | None = setting(parse_registration_key, is_secret=True)
    anonymise_ips: bool = setting(parse_flag, True)
    keep_accesses: int = setting(parse_count, 90)
    claims: bool = setting(parse_flag, True)
    secret_key: str | bytes = setting(
        parse_secret, require_secret, key="SECRET_KEY", is_secret=True
    )
    secret_key_fallbacks: tuple[str | bytes, ...] = setting(
        parse_secrets, (), key="SECRET_KEY_FALLBACKS", is_secret=True
    )

    @property
    def secret_keys(self) -> tuple[str | bytes, ...]:
        """The secrets of SECRET_KEY_FALLBACKS and SECRET_KEY. The newest secret is the last."""
        return (*reversed(self.secret_key_fallbacks), self.secret_key)

    @property
    def claims_folder(self) -> Path:
        """The folder with the private key that signs claims, and with the last position."""
        return self.folder / "ibi_claims"

    @cached_property
    def base_url(self) -> str:
        """The scheme and the host of the URLs of the Archive."""
        return f"{self.url_scheme}://{self.archive_address}"

    def check_minting(self) -> tuple[str, str]:
        """Check that identifiers can be minted, and return their prefixes: ``(rep, ibip)``.

        :raises ConfigError: if the host name cannot be used or the IP address is missing.
        """
        port, ip_port = self.mint_port
        if self.archive_ip is None:
            raise ConfigError(
                "IBI_ARCHIVE_IP",
                None,
                "the IPv4 or IPv6 address of the Archive, as 150.163.34.243; new IBIps contain it",
            )
        example = "as mtc-m18.sid.inpe.br, in IBI_MINT_HOST or IBI_ARCHIVE_ADDRESS"
        prefix = build_mint_prefix("IBI_MINT_HOST", self.mint_host, port, self.granularity, example)
        return prefix, grammar.build_ibip_prefix(self.archive_ip, ip_port)


def build_mint_prefix(key: str, host: str, port: int, granularity: Fraction, example: str) -> str:
    """Return the prefix of the repository names that are minted with a host name.

    :param key: the setting that contains the host name.
    :param example: the end of the error message, with an example of a right value.
    :raises ConfigError: if the host name cannot be used.
    """
    try:
        # the identifier must not become too long with the longest date of this granularity
        return grammar.build_repository_name(host, port, 1 + granularity).prefix
    except ValueError as error:
        expected = f"a domain name of two words or more, {example} ({error})"
        raise ConfigError(key, host, expected) from error


# --- keys --------------------------------------------------------------------------------------


def list_keys(*declaring: type[Any]) -> list[str]:
    """Return the keys of the settings of classes. Keys of Flask and Flask-Mail are not listed."""
    keys = {one.key for each in declaring for one in list_settings(each).values()}
    return sorted(key for key in keys if key.startswith("IBI_"))


def find_unknown_keys(
    config: Mapping[str, Any], *declaring: type[Any]
) -> Iterator[tuple[str, str | None]]:
    """Yield ``(key, similar key)`` for each key that begins with IBI_ but is not a setting.

    The similar key is the most similar key of a setting, or None if no key is similar.

    :param declaring: the classes that declare all settings.
    """
    known = list_keys(*declaring)
    for key in config:
        if key.startswith("IBI_") and key not in known:
            yield key, next(iter(get_close_matches(key, known, n=1)), None)
