"""The settings: read once, checked at the start, each error names the key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from fractions import Fraction
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from flask_ibi_archive.config.mail import MailSettings
from flask_ibi_archive.config.resolver import RESOLVER_SETTINGS
from flask_ibi_archive.config.values import (
    DATABASE_TIMEOUT,
    Network,
    Reader,
    a_base_url,
    a_count,
    a_flag,
    a_folder,
    a_granularity,
    a_port,
    a_registration_key,
    a_scheme,
    a_secret,
    a_service_ibi,
    a_text,
    a_timeout,
    an_address,
    an_ascii_word,
    an_email,
    an_identifier,
    an_ip,
    some_hosts,
    some_networks,
    some_relations,
    some_seconds,
    some_secrets,
)
from flask_ibi_archive.errors import ConfigError
from flask_ibi_archive.identifiers import Identifier, build_repository_name
from flask_ibi_archive.protocol.archive_address import host_of
from flask_ibi_archive.protocol.hosts import InnerHosts
from flask_ibi_archive.protocol.relations import RelationPattern


@dataclass(frozen=True)
class ArchiveConfig:
    """The settings of an Archive; the keys are those of the Flask config, in lower case, without IBI_.

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
        """Give the settings that a Flask config holds.

        :param instance_path: the folder where the database and the files are kept unless told otherwise.
        :raises ConfigError: at the first key whose value is missing or wrong.
        """
        read = Reader(config).read
        address = read(
            "IBI_ARCHIVE_ADDRESS", an_address, config.get("SERVER_NAME") or "localhost:5000"
        )
        secret = read("SECRET_KEY", a_secret)
        if secret is None:
            raise ConfigError("SECRET_KEY", None, "a long random text: URL keys are signed with it")
        return cls(
            database_uri=read(
                "IBI_DATABASE_URI", a_text, f"sqlite:///{instance_path}/ibi_archive.sqlite"
            ),
            database_timeout=read("IBI_DATABASE_TIMEOUT", a_timeout, DATABASE_TIMEOUT),
            archive_address=address,
            archive_service_ibi=read("IBI_ARCHIVE_SERVICE_IBI", a_service_ibi),
            archive_ip=read("IBI_ARCHIVE_IP", an_ip),
            archive_platform_version=read(
                "IBI_ARCHIVE_PLATFORM_VERSION", an_ascii_word, default_platform_version()
            ),
            archive_admin_email=read("IBI_ARCHIVE_ADMIN_EMAIL", an_email),
            platform_software_ibi=read("IBI_PLATFORM_SOFTWARE_IBI", an_identifier),
            registration_key=read("IBI_REGISTRATION_KEY", a_registration_key),
            resolver_url=read(
                "IBI_RESOLVER_URL", a_base_url, "http://urlib.net/J8LNKB5R7W/3FUQHC5"
            ),
            persistent_url_base=read("IBI_PERSISTENT_URL_BASE", a_base_url, "http://urlib.net"),
            granularity=read("IBI_GRANULARITY", a_granularity, "0.001"),
            mint_host=read("IBI_MINT_HOST", a_text, host_of(address)),
            mint_port=read("IBI_MINT_PORT", a_port),
            mint_max_wait=read("IBI_MINT_MAX_WAIT", some_seconds, 10),
            relations=read("IBI_RELATIONS", some_relations),
            filter_url_list=read("IBI_FILTER_URL_LIST", a_flag, True),
            follow_editions=read("IBI_FOLLOW_EDITIONS", a_flag, True),
            url_key_max_age=read("IBI_URL_KEY_MAX_AGE", some_seconds, 3600),
            local_resolution=read("IBI_LOCAL_RESOLUTION", a_flag, True),
            files_folder=Path(read("IBI_FILES_FOLDER", a_folder, f"{instance_path}/ibi_files")),
            trusted_proxies=read("IBI_TRUSTED_PROXIES", some_networks, ()),
            register_on_start=read("IBI_REGISTER_ON_START", a_flag, False),
            registration_deadline=read("IBI_REGISTRATION_DEADLINE", some_seconds, 60),
            resolver_email=read("IBI_RESOLVER_EMAIL", an_email),
            anonymise_ips=read("IBI_ANONYMISE_IPS", a_flag, True),
            keep_accesses=read("IBI_KEEP_ACCESSES", a_count, 90),
            spool_folder=Path(read("IBI_SPOOL_FOLDER", a_folder, f"{instance_path}/ibi_spool")),
            link_failures=read("IBI_LINK_FAILURES", a_count, 3),
            inner_hosts=read("IBI_INNER_HOSTS", some_hosts, ()),
            mail=MailSettings.from_reader(read),
            url_scheme=a_scheme(
                "PREFERRED_URL_SCHEME", config.get("PREFERRED_URL_SCHEME") or "http"
            ),
            secret_keys=(*reversed(read("SECRET_KEY_FALLBACKS", some_secrets, ())), secret),
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


#: The keys that begin with IBI_; some of the settings are Flask's own, or those of its mail extensions.
KEYS = sorted(
    f"IBI_{name}"
    for name in {field.name.upper() for field in fields(ArchiveConfig)} | RESOLVER_SETTINGS
    if name not in ("URL_SCHEME", "SECRET_KEYS", "MAIL")
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
