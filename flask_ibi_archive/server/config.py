"""The settings of an Archive, and the functions that read settings.

The extension reads and checks all settings once, when the app starts. An error names the key of the
setting, the wrong value and the allowed values. The settings of a resolver use the same functions.
"""

# ruff: noqa: RUF009 - setting() returns a dataclasses.field()

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from difflib import get_close_matches
from fractions import Fraction
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from flask_ibi_archive.core.identifiers import Identifier, build_ibip_prefix, build_repository_name
from flask_ibi_archive.core.identifiers.grammar import IBIP, REPOSITORY
from flask_ibi_archive.core.protocol.hosts import InnerHosts, extract_host, extract_port
from flask_ibi_archive.core.protocol.relations import RelationPattern
from flask_ibi_archive.errors import ConfigError
from flask_ibi_archive.server import setting_values as values
from flask_ibi_archive.server.setting_values import InvalidValue, Network

#: Error messages do not show the values of these keys.
SECRETS = (
    "SECRET_KEY",
    "SECRET_KEY_FALLBACKS",
    "IBI_REGISTRATION_KEY",
    "IBI_CLAIMS_KEY",
    "IBI_DATABASE_URI",
    "IBI_READ_DATABASE_URI",
    "IBI_RESOLVER_DATABASE_URI",
    "MAIL_PASSWORD",
)
#: The default of IBI_VERSION_TABLE: the table that contains the revision of the tables.
VERSION_TABLE = "ibi_alembic_version"
#: The default of IBI_CONTENT_SECURITY_POLICY. A page may use the style sheets, images, fonts and
#: scripts of the app, but no inline styles or scripts and nothing from other hosts. There is no
#: form-action, because browsers would then block a form that is redirected to the host of an item.
PAGE_POLICY = (
    "default-src 'self'; img-src 'self' data:; font-src 'self' data:; object-src 'none'; "
    "base-uri 'self'; frame-ancestors 'self'"
)
#: The default of IBI_DATABASE_TIMEOUT in seconds. Archives and resolvers use this setting.
DATABASE_TIMEOUT = 5


# --- reading -----------------------------------------------------------------------------------


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
    found = {}
    for declared in _declared_fields(settings):
        default = declared.metadata["default"]
        if callable(default):
            default = default(config)
        elif isinstance(default, str):
            default = default.replace("{instance_path}", instance_path)
        parse = declared.metadata["parse"]
        empty = declared.metadata["allows_empty"]
        key = _config_key(declared)
        found[declared.name] = reader.read(key, parse, default, allows_empty=empty)
    return found


def _declared_fields(settings: type[Any]) -> list[Field[Any]]:
    return [declared for declared in fields(settings) if declared.metadata]


def _config_key(declared: Field[Any]) -> str:
    return declared.metadata["key"] or f"IBI_{declared.name.upper()}"


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
        server = read("MAIL_SERVER", values.parse_text)
        if server is None:
            return None
        use_tls = read("MAIL_USE_TLS", values.parse_flag, False)
        use_ssl = read("MAIL_USE_SSL", values.parse_flag, False)
        if use_tls and use_ssl:
            raise ConfigError("MAIL_USE_TLS", True, "false, because MAIL_USE_SSL is true")
        default_port = 465 if use_ssl else 25
        if use_tls:
            default_port = 587
        return cls(
            server=server,
            port=read("MAIL_PORT", values.parse_port, default_port),
            use_tls=use_tls,
            use_ssl=use_ssl,
            username=read("MAIL_USERNAME", values.parse_text),
            password=read("MAIL_PASSWORD", values.parse_text),
            default_sender=read("MAIL_DEFAULT_SENDER", values.parse_sender),
        )


def default_address(config: Mapping[str, Any]) -> str:
    """Return the default of IBI_ARCHIVE_ADDRESS: SERVER_NAME or localhost:5000."""
    return config.get("SERVER_NAME") or "localhost:5000"


def find_address(config: Mapping[str, Any]) -> str:
    """Return the address of the Archive, which is also the default of IBI_ARCHIVE_NAME."""
    return config.get("IBI_ARCHIVE_ADDRESS") or default_address(config)


def default_mint_host(config: Mapping[str, Any]) -> str:
    """Return the default of IBI_MINT_HOST: the host in the address of the Archive."""
    return extract_host(find_address(config))


def default_mint_port(config: Mapping[str, Any]) -> int | str:
    """Return the default of IBI_MINT_PORT: the port in the address of the Archive."""
    return extract_port(find_address(config)) or "80,800"


def find_mint_host_origin(config: Mapping[str, Any]) -> str:
    """Return from where the host in new identifiers was taken, for messages."""
    if config.get("IBI_MINT_HOST"):
        return ""
    for key in ("IBI_ARCHIVE_ADDRESS", "SERVER_NAME"):
        if value := config.get(key):
            return f"; it was taken from {key}, which is {value!r}"
    return "; it is the default, because IBI_ARCHIVE_ADDRESS and SERVER_NAME are not set"


def default_platform_version(config: Mapping[str, Any]) -> str:
    """Return the default of IBI_ARCHIVE_PLATFORM_VERSION: the version of this package."""
    try:
        return f"flask_ibi_archive-{version('flask_ibi_archive')}"
    except PackageNotFoundError:
        return "flask_ibi_archive"


@dataclass(frozen=True, kw_only=True, repr=False)  # the settings contain secrets
class ArchiveConfig:
    """The settings of an Archive.

    The key of a setting in the Flask config is ``IBI_`` and the name of the field in capitals. A
    field can declare another key.

    :ivar mail: the settings of the e-mail server; None if the Archive sends no e-mails.
    :ivar secret_keys: the secrets of SECRET_KEY_FALLBACKS and SECRET_KEY. The newest secret is the
        last.
    :ivar mint_port: the port in repository names and the port in IBIps.
    :ivar mint_host_origin: from where the default of IBI_MINT_HOST was taken, for messages.
    """

    archive_address: str = setting(values.parse_archive_address, default_address)
    archive_name: str = setting(values.parse_text, find_address)
    publisher: str | None = setting(values.parse_text)
    archive_service_ibi: str | None = setting(values.parse_service_ibi)
    archive_ip: str | None = setting(values.parse_ip)
    archive_platform_version: str = setting(values.parse_ascii_word, default_platform_version)
    archive_admin_email: str | None = setting(values.parse_email)
    platform_software_ibi: Identifier | None = setting(values.parse_identifier_setting)
    database_uri: str = setting(values.parse_text, "sqlite:///{instance_path}/ibi_archive.sqlite")
    database_timeout: float = setting(values.parse_timeout, DATABASE_TIMEOUT)
    database_bind: str | None = setting(values.parse_text)
    read_database_uri: str | None = setting(values.parse_text)
    version_table: str = setting(values.parse_table_name, VERSION_TABLE)
    files_folder: Path = setting(values.parse_folder, "{instance_path}/ibi_files")
    granularity: Fraction = setting(values.parse_granularity_setting, "0.001")
    mint_host: str = setting(values.parse_text, default_mint_host)
    mint_port: tuple[int, int] = setting(values.parse_ports, default_mint_port)
    mint_max_wait: float = setting(values.parse_seconds, 10)
    relations: tuple[RelationPattern, ...] | None = setting(values.parse_relations)
    filter_url_list: bool = setting(values.parse_flag, True)
    follow_editions: bool = setting(values.parse_flag, True)
    url_key_max_age: float = setting(values.parse_seconds, 3600)
    url_scheme: str = setting(values.parse_scheme, "http", key="PREFERRED_URL_SCHEME")
    application_root: str = setting(values.parse_root, "/", key="APPLICATION_ROOT")
    base_template: str | None = setting(values.parse_template)
    content_security_policy: str = setting(values.parse_policy, PAGE_POLICY, allows_empty=True)
    trusted_proxies: tuple[Network, ...] = setting(values.parse_networks, ())
    local_resolution: bool = setting(values.parse_flag, True)
    former_hosts: frozenset[str] = setting(values.parse_own_hosts, ())
    identification: bool = setting(values.parse_flag, False)
    resolver_url: str = setting(values.parse_base_url, "http://urlib.net/J8LNKB5R7W/3FUQHC5")
    persistent_url_base: str = setting(values.parse_base_url, "http://urlib.net")
    resolver_email: str | None = setting(values.parse_email)
    registration_key: str | None = setting(values.parse_registration_key)
    anonymise_ips: bool = setting(values.parse_flag, True)
    keep_accesses: int = setting(values.parse_count, 90)
    inner_hosts: InnerHosts = setting(values.parse_hosts, ())
    claims: bool = setting(values.parse_flag, True)
    claims_key: bytes | None = setting(values.parse_private_key)
    claims_folder: Path = setting(values.parse_folder, "{instance_path}/ibi_claims")
    mail: MailSettings | None
    secret_keys: tuple[str | bytes, ...]
    mint_host_origin: str

    @classmethod
    def from_mapping(cls, config: Mapping[str, Any], instance_path: str) -> ArchiveConfig:
        """Return the settings of a Flask config.

        :param instance_path: the instance folder of the app. Some defaults contain this folder.
        :raises ConfigError: if a key is missing or a value is wrong. The error names the first such
            key.
        """
        settings = read_settings(cls, config, instance_path)
        read = SettingsReader(config).read
        secret = read("SECRET_KEY", values.parse_secret)
        if secret is None:
            raise ConfigError(
                "SECRET_KEY", None, "a long random text, because this text signs the URL keys"
            )
        older = read("SECRET_KEY_FALLBACKS", values.parse_secrets, ())
        mail = MailSettings.from_reader(read)
        return cls(
            **settings,
            mail=mail,
            secret_keys=(*reversed(older), secret),
            mint_host_origin=find_mint_host_origin(config),
        )

    @cached_property
    def base_url(self) -> str:
        """The scheme and the host of the URLs of the Archive."""
        return f"{self.url_scheme}://{self.archive_address}"

    @cached_property
    def resolver_base(self) -> str:
        """IBI_RESOLVER_URL without the IBI of the resolver's service at its end."""
        return re.sub(rf"/(?:{IBIP.pattern}|{REPOSITORY.pattern})\Z", "", self.resolver_url)

    def check_minting(self) -> tuple[str, str]:
        """Return the prefixes of new identifiers, of the rep and the ibip form.

        :raises ConfigError: if the host name cannot be used or the IP address is missing.
        """
        port, ip_port = self.mint_port
        if self.archive_ip is None:
            raise ConfigError(
                "IBI_ARCHIVE_IP",
                None,
                "the IPv4 or IPv6 address of the Archive, as 150.163.34.243; new IBIps contain it",
            )
        try:
            # the identifier must not become too long with the longest date of this granularity
            longest = build_repository_name(self.mint_host, port, 1 + self.granularity)
        except ValueError as error:
            raise ConfigError(
                "IBI_MINT_HOST",
                self.mint_host,
                f"a domain name of two words or more, as mtc-m18.sid.inpe.br ({error}"
                f"{self.mint_host_origin})",
            ) from error
        return longest.prefix, build_ibip_prefix(self.archive_ip, ip_port)


# --- keys --------------------------------------------------------------------------------------

#: The names of the settings of a resolver (resolver/config.py), without ``IBI_``.
RESOLVER_SETTINGS = {
    "RESOLVER_DATABASE_URI",
    "RESOLVER_SERVICE_IBI",
    "RESOLVER_ARCHIVE_TIMEOUT",
    "RESOLVER_DEADLINE",
    "RESOLVER_MAX_ANSWER",
    "RESOLVER_MAX_ROUNDS",
    "RESOLVER_MAX_CONNECTIONS",
    "RESOLVER_INNER_HOSTS",
    "RESOLVER_FOLLOW",
    "RESOLVER_FOLLOW_CONNECTIONS",
    "RESOLVER_CLAIMS_MAX_AGE",
    "RESOLVER_CLAIMS_MAX_SIZE",
    "RESOLVER_CLAIMS_FOLDER",
    "RESOLVER_EMAIL",
    "RESOLVER_REGISTRY",
    "RESOLVER_REGISTRY_ALLOWED",
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
