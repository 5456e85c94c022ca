"""The settings of a resolver. The settings are read and checked when the app starts."""

# ruff: noqa: RUF009 - setting() returns a dataclasses.field()

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from flask_ibi_archive.core.identifiers import build_repository_name
from flask_ibi_archive.core.protocol.hosts import InnerHosts, extract_host
from flask_ibi_archive.errors import ConfigError
from flask_ibi_archive.server.config import (
    DATABASE_TIMEOUT,
    PAGE_POLICY,
    MailSettings,
    SettingsReader,
    read_settings,
    setting,
)
from flask_ibi_archive.server.setting_values import (
    Network,
    parse_archive_address,
    parse_count,
    parse_email,
    parse_flag,
    parse_folder,
    parse_hosts,
    parse_identifiers,
    parse_networks,
    parse_policy,
    parse_scheme,
    parse_service_ibi,
    parse_template,
    parse_text,
    parse_timeout,
)

try:
    import resource
except ImportError:  # Windows
    FILES = 1024
else:
    FILES = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
#: The default of IBI_RESOLVER_MAX_CONNECTIONS: half of the files that the process may open.
MAX_CONNECTIONS = min(FILES // 2, 4096) if FILES > 0 else 4096
#: The IBI of the resolver service in the standard's examples ([R] 5.2).
SERVICE_IBI = "J8LNKB5R7W/3FUQHC5"
#: The finest step of the dates in the identifiers of the document registry, in seconds.
MINT_GRANULARITY = Fraction(1, 1000)
#: The port in these identifiers, which the identifiers of Archives at the same host do not have.
MINT_PORT = 2008


def default_mint_host(config: Mapping[str, Any]) -> str | None:
    """Return the default of IBI_MINT_HOST for a document registry: the host in SERVER_NAME."""
    address = config.get("SERVER_NAME")
    return extract_host(address) if address else None


@dataclass(frozen=True, kw_only=True, repr=False)  # the settings contain secrets
class ResolverConfig:
    """The settings of a resolver.

    The declaration of each field names the key of the Flask config.

    :ivar database_timeout: an Archive in the same app uses this setting too.
    :ivar archive_name: the name in the header of pages. An Archive in the same app uses it too.
    :ivar trusted_proxies: an Archive in the same app uses this setting too. This is also true for
        ``base_template`` and ``content_security_policy``.
    :ivar max_connections: the maximum number of open connections to Archives in a process.
    :ivar email: the e-mail address of the resolver's administrator.
    :ivar follow: True if a thread of the app reads the claims of the Archives.
    :ivar follow_connections: the maximum number of open connections for reading claims.
    :ivar claims_max_age: the seconds after which claims that were not confirmed no longer count.
    :ivar claims_max_size: the length of an Archive's claims in bytes after which no more are read.
    :ivar claims_folder: the folder of the index and of the claims that were read.
    :ivar registry: True if the resolver has a document registry ([P] 4).
    :ivar registry_allowed: the identifiers that actors may register although an Archive claims them
        or another actor has registered them, in canonical case.
    :ivar mint_host: the host name in the identifiers that the document registry mints. An Archive
        in the same app uses this setting too. A text if the resolver has a document registry.
    :ivar mail: the settings of the e-mail server. None if no e-mail server is set.
    """

    database_uri: str = setting(
        parse_text, "sqlite:///{instance_path}/ibi_resolver.sqlite", key="IBI_RESOLVER_DATABASE_URI"
    )
    database_timeout: float = setting(parse_timeout, DATABASE_TIMEOUT)
    service_ibi: str = setting(parse_service_ibi, SERVICE_IBI, key="IBI_RESOLVER_SERVICE_IBI")
    archive_timeout: float = setting(parse_timeout, 5, key="IBI_RESOLVER_ARCHIVE_TIMEOUT")
    deadline: float = setting(parse_timeout, 10, key="IBI_RESOLVER_DEADLINE")
    max_answer: int = setting(parse_count, 65536, key="IBI_RESOLVER_MAX_ANSWER")
    max_rounds: int = setting(parse_count, 16, key="IBI_RESOLVER_MAX_ROUNDS")
    max_connections: int = setting(parse_count, MAX_CONNECTIONS, key="IBI_RESOLVER_MAX_CONNECTIONS")
    inner_hosts: InnerHosts = setting(parse_hosts, (), key="IBI_RESOLVER_INNER_HOSTS")
    follow: bool = setting(parse_flag, False, key="IBI_RESOLVER_FOLLOW")
    follow_connections: int = setting(parse_count, 128, key="IBI_RESOLVER_FOLLOW_CONNECTIONS")
    claims_max_age: float = setting(parse_timeout, 300, key="IBI_RESOLVER_CLAIMS_MAX_AGE")
    claims_max_size: int = setting(parse_count, 8 << 30, key="IBI_RESOLVER_CLAIMS_MAX_SIZE")
    claims_folder: Path = setting(
        parse_folder, "{instance_path}/ibi_resolver_claims", key="IBI_RESOLVER_CLAIMS_FOLDER"
    )
    archive_name: str | None = setting(parse_text)
    email: str | None = setting(parse_email, key="IBI_RESOLVER_EMAIL")
    trusted_proxies: tuple[Network, ...] = setting(parse_networks, ())
    base_template: str | None = setting(parse_template)
    content_security_policy: str = setting(parse_policy, PAGE_POLICY, allows_empty=True)
    server_name: str | None = setting(parse_archive_address, key="SERVER_NAME")
    url_scheme: str = setting(parse_scheme, "http", key="PREFERRED_URL_SCHEME")
    registry: bool = setting(parse_flag, False, key="IBI_RESOLVER_REGISTRY")
    registry_allowed: frozenset[str] = setting(
        parse_identifiers, (), key="IBI_RESOLVER_REGISTRY_ALLOWED"
    )
    mint_host: str | None = setting(parse_text, default_mint_host)
    mail: MailSettings | None

    @classmethod
    def from_mapping(cls, config: Mapping[str, Any], instance_path: str) -> ResolverConfig:
        """Read and check the resolver's settings in a Flask config, and return the settings.

        :param instance_path: the folder that contains the default SQLite database.
        :raises ConfigError: if a value is wrong. The error names the first key with a wrong value.
        """
        values = read_settings(cls, config, instance_path)
        settings = cls(**values, mail=MailSettings.from_reader(SettingsReader(config).read))
        if settings.registry:
            settings._check_minting()
        return settings

    def _check_minting(self) -> None:
        """Check that the document registry can mint identifiers.

        :raises ConfigError: if the host name is missing or cannot be used.
        """
        try:
            # the identifier must not become too long with the longest date
            build_repository_name(self.mint_host or "", MINT_PORT, 1 + MINT_GRANULARITY)
        except ValueError as error:
            raise ConfigError(
                "IBI_MINT_HOST",
                self.mint_host,
                "a domain name of two words or more, as registry.urlib.net, because the documents "
                f"of the registry get identifiers with this name ({error})",
            ) from error

    @property
    def base_url(self) -> str | None:
        """The scheme and host of the resolver's URLs. None if SERVER_NAME is not set."""
        return None if self.server_name is None else f"{self.url_scheme}://{self.server_name}"

    @property
    def service_url(self) -> str | None:
        """The URL that Archives set as IBI_RESOLVER_URL. None if SERVER_NAME is not set."""
        return None if self.base_url is None else f"{self.base_url}/{self.service_ibi}"
