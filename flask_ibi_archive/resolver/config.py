"""The settings of a resolver. The settings are read and checked when the app starts."""

# ruff: noqa: RUF009 - setting() returns a dataclasses.field()

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flask_ibi_archive.config import (
    DATABASE_TIMEOUT,
    PAGE_POLICY,
    MailSettings,
    SettingsReader,
    read_settings,
    setting,
)
from flask_ibi_archive.protocol.hosts import InnerHosts
from flask_ibi_archive.setting_values import (
    Network,
    parse_archive_address,
    parse_count,
    parse_email,
    parse_hosts,
    parse_networks,
    parse_policy,
    parse_scheme,
    parse_service_ibi,
    parse_template,
    parse_text,
    parse_timeout,
)

#: The IBI of the resolver service in the standard's examples ([R] 5.2).
SERVICE_IBI = "J8LNKB5R7W/3FUQHC5"


@dataclass(frozen=True, kw_only=True, repr=False)  # the settings contain secrets
class ResolverConfig:
    """The settings of a resolver.

    The declaration of each field names the key of the Flask config.

    :ivar database_timeout: an Archive in the same app uses this setting too.
    :ivar trusted_proxies: an Archive in the same app uses this setting too. This is also true for
        ``base_template`` and ``content_security_policy``.
    :ivar email: the e-mail address of the resolver's administrator.
    :ivar mail: the settings of the e-mail server. None if no e-mail server is set.
    """

    database_uri: str = setting(
        parse_text,
        "sqlite:///{instance_path}/ibi_resolver.sqlite",
        key="IBI_RESOLVER_DATABASE_URI",
    )
    database_timeout: float = setting(parse_timeout, DATABASE_TIMEOUT)
    service_ibi: str = setting(parse_service_ibi, SERVICE_IBI, key="IBI_RESOLVER_SERVICE_IBI")
    archive_timeout: float = setting(parse_timeout, 5, key="IBI_RESOLVER_ARCHIVE_TIMEOUT")
    deadline: float = setting(parse_timeout, 10, key="IBI_RESOLVER_DEADLINE")
    max_answer: int = setting(parse_count, 65536, key="IBI_RESOLVER_MAX_ANSWER")
    max_rounds: int = setting(parse_count, 16, key="IBI_RESOLVER_MAX_ROUNDS")
    inner_hosts: InnerHosts = setting(parse_hosts, (), key="IBI_RESOLVER_INNER_HOSTS")
    email: str | None = setting(parse_email, key="IBI_RESOLVER_EMAIL")
    trusted_proxies: tuple[Network, ...] = setting(parse_networks, ())
    base_template: str | None = setting(parse_template)
    content_security_policy: str = setting(parse_policy, PAGE_POLICY, allows_empty=True)
    server_name: str | None = setting(parse_archive_address, key="SERVER_NAME")
    url_scheme: str = setting(parse_scheme, "http", key="PREFERRED_URL_SCHEME")
    mail: MailSettings | None

    @classmethod
    def from_mapping(cls, config: Mapping[str, Any], instance_path: str) -> ResolverConfig:
        """Read and check the resolver's settings in a Flask config, and return the settings.

        :param instance_path: the folder that contains the default SQLite database.
        :raises ConfigError: if a value is wrong. The error names the first key with a wrong value.
        """
        values = read_settings(cls, config, instance_path)
        return cls(**values, mail=MailSettings.from_reader(SettingsReader(config).read))

    @property
    def base_url(self) -> str | None:
        """The scheme and host of the resolver's URLs. None if SERVER_NAME is not set."""
        return None if self.server_name is None else f"{self.url_scheme}://{self.server_name}"

    @property
    def service_url(self) -> str | None:
        """The URL that Archives set as IBI_RESOLVER_URL. None if SERVER_NAME is not set."""
        return None if self.base_url is None else f"{self.base_url}/{self.service_ibi}"
