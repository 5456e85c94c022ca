"""The settings of a resolver, read and checked once at start-up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flask_ibi_archive.config import (
    DATABASE_TIMEOUT,
    MailSettings,
    Network,
    SettingsReader,
    parse_archive_address,
    parse_count,
    parse_email,
    parse_hosts,
    parse_networks,
    parse_scheme,
    parse_service_ibi,
    parse_text,
    parse_timeout,
)
from flask_ibi_archive.protocol.hosts import InnerHosts

#: The IBI of the resolver service in the standard's examples ([R] 5.2).
SERVICE_IBI = "J8LNKB5R7W/3FUQHC5"


@dataclass(frozen=True)
class ResolverConfig:
    """The settings of a resolver, named without the prefix ``IBI_RESOLVER_`` and in lower case.

    ``trusted_proxies`` and ``database_timeout`` are IBI_TRUSTED_PROXIES and IBI_DATABASE_TIMEOUT,
    which apply to an Archive in the same app too. ``server_name`` and ``url_scheme`` are Flask's
    SERVER_NAME and PREFERRED_URL_SCHEME. ``email`` is the address of the administrator.
    """

    database_uri: str
    database_timeout: float
    service_ibi: str
    archive_timeout: float
    deadline: float
    max_answer: int
    max_rounds: int
    inner_hosts: InnerHosts
    email: str | None
    trusted_proxies: tuple[Network, ...]
    mail: MailSettings | None
    server_name: str | None
    url_scheme: str

    @classmethod
    def from_mapping(cls, config: Mapping[str, Any], instance_path: str) -> ResolverConfig:
        """Return the settings of a Flask config.

        :param instance_path: the folder of the default SQLite database.
        :raises ConfigError: naming the first key that has a wrong value.
        """
        read = SettingsReader(config).read
        return cls(
            database_uri=read(
                "IBI_RESOLVER_DATABASE_URI",
                parse_text,
                f"sqlite:///{instance_path}/ibi_resolver.sqlite",
            ),
            database_timeout=read("IBI_DATABASE_TIMEOUT", parse_timeout, DATABASE_TIMEOUT),
            service_ibi=read("IBI_RESOLVER_SERVICE_IBI", parse_service_ibi, SERVICE_IBI),
            archive_timeout=read("IBI_RESOLVER_ARCHIVE_TIMEOUT", parse_timeout, 5),
            deadline=read("IBI_RESOLVER_DEADLINE", parse_timeout, 10),
            max_answer=read("IBI_RESOLVER_MAX_ANSWER", parse_count, 65536),
            max_rounds=read("IBI_RESOLVER_MAX_ROUNDS", parse_count, 16),
            inner_hosts=read("IBI_RESOLVER_INNER_HOSTS", parse_hosts, ()),
            email=read("IBI_RESOLVER_EMAIL", parse_email),
            trusted_proxies=read("IBI_TRUSTED_PROXIES", parse_networks, ()),
            mail=MailSettings.from_reader(read),
            server_name=read("SERVER_NAME", parse_archive_address),
            url_scheme=read("PREFERRED_URL_SCHEME", parse_scheme, "http"),
        )

    @property
    def base_url(self) -> str | None:
        """Scheme and host of the resolver, None if SERVER_NAME is not set."""
        return None if self.server_name is None else f"{self.url_scheme}://{self.server_name}"

    @property
    def service_url(self) -> str | None:
        """The value of IBI_RESOLVER_URL for Archives, None if SERVER_NAME is not set."""
        return None if self.base_url is None else f"{self.base_url}/{self.service_ibi}"
