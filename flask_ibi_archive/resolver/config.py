"""The settings of a resolver. The settings are read and checked when the app starts.

``SERVER_NAME`` and ``service_ibi`` give the URL of the resolver. An Archive looks for the resolver
at the URL in its own setting IBI_RESOLVER_URL (server/config.py). The defaults of ``service_ibi``
and of IBI_RESOLVER_URL are those of the standard's resolver (core/protocol/inclusion.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

from flask_ibi_archive.core.protocol.hosts import extract_host
from flask_ibi_archive.core.protocol.inclusion import RESOLVER_SERVICE_IBI
from flask_ibi_archive.errors import ConfigError
from flask_ibi_archive.server.config import (
    SharedConfig,
    build_mint_prefix,
    parse_archive_address,
    parse_count,
    parse_email,
    parse_flag,
    parse_identifiers,
    parse_service_ibi,
    parse_text,
    parse_timeout,
    setting,
)

#: The finest step of the dates in the identifiers of the document registry, in seconds.
MINT_GRANULARITY = Fraction(1, 1000)
#: The port in these identifiers, which the identifiers of Archives at the same host do not have.
MINT_PORT = 2008


def default_mint_host(config: Mapping[str, Any]) -> str | None:
    """Return the default of IBI_MINT_HOST for a document registry: the host in SERVER_NAME."""
    address = config.get("SERVER_NAME")
    return extract_host(address) if address else None


resolver_setting = partial(setting, prefix="IBI_RESOLVER_")


@dataclass(frozen=True, kw_only=True, repr=False)  # the settings contain secrets
class ResolverConfig(SharedConfig):
    """The settings of a resolver.

    The keys of settings that only a resolver has begin with ``IBI_RESOLVER_``.

    :ivar email: the e-mail address of the resolver's administrator.
    :ivar follow: True if a thread of the app reads the claims of the Archives.
    :ivar claims_interval: the seconds after which the claims of an Archive are read again.
    :ivar claims_max_age: the claims of an Archive stop counting if they were last read more than
        this number of seconds ago.
    :ivar registry: True if the resolver has a document registry ([P] 4).
    :ivar registry_allowed: the identifiers that actors may register although an Archive claims them
        or another actor has registered them, in canonical case.
    :ivar mint_host: the host name in the identifiers that the document registry mints; never None
        if ``registry`` is True. An Archive in the same app uses this setting too.
    """

    database_uri: str = resolver_setting(
        parse_text, "sqlite:///{instance_path}/ibi_resolver.sqlite", is_secret=True
    )
    service_ibi: str = resolver_setting(parse_service_ibi, RESOLVER_SERVICE_IBI)
    archive_timeout: float = resolver_setting(parse_timeout, 5)
    deadline: float = resolver_setting(parse_timeout, 10)
    max_answer: int = resolver_setting(parse_count, 65536)
    max_rounds: int = resolver_setting(parse_count, 16)
    follow: bool = resolver_setting(parse_flag, False)
    claims_interval: float = resolver_setting(parse_timeout, 30)
    claims_max_age: float = resolver_setting(parse_timeout, 300)
    email: str | None = resolver_setting(parse_email)
    server_name: str | None = setting(parse_archive_address, key="SERVER_NAME")
    registry: bool = resolver_setting(parse_flag, False)
    registry_allowed: frozenset[str] = resolver_setting(parse_identifiers, ())
    mint_host: str | None = setting(parse_text, default_mint_host)

    def __post_init__(self) -> None:
        """Check that the document registry can mint identifiers.

        :raises ConfigError: if the host name is missing or cannot be used.
        """
        key, example = "IBI_MINT_HOST", "as registry.urlib.net"
        host = self.mint_host
        if self.registry and host is None:
            raise ConfigError(
                key,
                None,
                f"a domain name of two words or more, {example}, because the documents of the "
                "registry get identifiers with this name",
            )
        if self.registry and host is not None:
            build_mint_prefix(key, host, MINT_PORT, MINT_GRANULARITY, example)

    @property
    def base_url(self) -> str | None:
        """The scheme and host of the resolver's URLs. None if SERVER_NAME is not set."""
        return None if self.server_name is None else f"{self.url_scheme}://{self.server_name}"

    @property
    def service_url(self) -> str | None:
        """The URL that Archives set as IBI_RESOLVER_URL. None if SERVER_NAME is not set."""
        return None if self.base_url is None else f"{self.base_url}/{self.service_ibi}"
