"""The settings of a resolver."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from flask import Flask
from support.cases import for_each

from flask_ibi_archive.core.protocol.hosts import InnerHosts
from flask_ibi_archive.errors import ConfigError
from flask_ibi_archive.resolver import IBIResolver
from flask_ibi_archive.resolver.config import MAX_CONNECTIONS, ResolverConfig
from flask_ibi_archive.server.config import ArchiveConfig, find_unknown_keys
from flask_ibi_archive.server.pages.requests import shared_config


def read(**config: Any) -> ResolverConfig:
    return ResolverConfig.from_mapping(config, "/srv/instance")


DEFAULTS = {
    "IBI_RESOLVER_DATABASE_URI": "sqlite:////srv/instance/ibi_resolver.sqlite",
    "IBI_DATABASE_TIMEOUT": 5,
    "IBI_RESOLVER_SERVICE_IBI": "J8LNKB5R7W/3FUQHC5",
    "IBI_RESOLVER_ARCHIVE_TIMEOUT": 5,
    "IBI_RESOLVER_DEADLINE": 10,
    "IBI_RESOLVER_MAX_ANSWER": 65536,
    "IBI_RESOLVER_MAX_ROUNDS": 16,
    "IBI_RESOLVER_INNER_HOSTS": InnerHosts(),
    "IBI_RESOLVER_MAX_CONNECTIONS": MAX_CONNECTIONS,
    "IBI_RESOLVER_FOLLOW": False,
    "IBI_RESOLVER_FOLLOW_CONNECTIONS": 128,
    "IBI_RESOLVER_CLAIMS_MAX_AGE": 300,
    "IBI_RESOLVER_CLAIMS_MAX_SIZE": 8589934592,
    "IBI_RESOLVER_CLAIMS_FOLDER": Path("/srv/instance/ibi_resolver_claims"),
    "IBI_RESOLVER_EMAIL": None,
    "IBI_RESOLVER_REGISTRY": False,
    "IBI_RESOLVER_REGISTRY_PASSWORDS_IN_URLS": False,
    "IBI_RESOLVER_REGISTRY_MINT_HOST": None,
    "IBI_RESOLVER_REGISTRY_MINT_PORT": 2008,
    "IBI_TRUSTED_PROXIES": (),
    "MAIL_SERVER": None,
    "SERVER_NAME": None,
    "PREFERRED_URL_SCHEME": "http",
}
NAMES = {"PREFERRED_URL_SCHEME": "url_scheme", "MAIL_SERVER": "mail"}


def setting(key: str, config: ResolverConfig) -> Any:
    name = key.removeprefix("IBI_").removeprefix("RESOLVER_").lower()
    return getattr(config, NAMES.get(key, name))


@for_each(("key", "default"), DEFAULTS.items())
def test_a_missing_key_has_its_default(key: str, default: Any) -> None:
    assert setting(key, read()) == default
    assert setting(key, read(**{key: None})) == default
    assert setting(key, read(**{key: ""})) == default


@for_each(
    ("key", "value", "expected"),
    [
        ("IBI_RESOLVER_DATABASE_URI", "postgresql://a@b/c", "postgresql://a@b/c"),
        ("IBI_RESOLVER_SERVICE_IBI", "j8lnkb5r7w/3fuqhc5", "J8LNKB5R7W/3FUQHC5"),
        ("IBI_DATABASE_TIMEOUT", "2", 2.0),
        ("IBI_RESOLVER_ARCHIVE_TIMEOUT", "0.5", 0.5),
        ("IBI_RESOLVER_DEADLINE", 3600, 3600.0),
        ("IBI_RESOLVER_MAX_ANSWER", "1024", 1024),
        ("IBI_RESOLVER_MAX_ROUNDS", 1, 1),
        (
            "IBI_RESOLVER_INNER_HOSTS",
            "Files.corp, .intranet 192.168.0.0/16",
            InnerHosts(frozenset({"files.corp", ".intranet"}), (ip_network("192.168.0.0/16"),)),
        ),
        ("IBI_RESOLVER_MAX_CONNECTIONS", "100", 100),
        ("IBI_RESOLVER_FOLLOW", "yes", True),
        ("IBI_RESOLVER_FOLLOW_CONNECTIONS", "8", 8),
        ("IBI_RESOLVER_CLAIMS_MAX_AGE", "90", 90.0),
        ("IBI_RESOLVER_CLAIMS_MAX_SIZE", "1000", 1000),
        ("IBI_RESOLVER_CLAIMS_FOLDER", "/var/claims", Path("/var/claims")),
        ("IBI_RESOLVER_EMAIL", "urlib@example.org", "urlib@example.org"),
        ("IBI_RESOLVER_REGISTRY_PASSWORDS_IN_URLS", "yes", True),
        ("IBI_RESOLVER_REGISTRY_MINT_HOST", "registry.urlib.net", "registry.urlib.net"),
        ("IBI_RESOLVER_REGISTRY_MINT_PORT", "8080", 8080),
        ("IBI_TRUSTED_PROXIES", "10.0.0.0/8", (ip_network("10.0.0.0/8"),)),
        ("SERVER_NAME", "urlib.net:80", "urlib.net:80"),
        ("PREFERRED_URL_SCHEME", "https", "https"),
    ],
)
def test_a_valid_value_is_parsed(key: str, value: Any, expected: Any) -> None:
    assert setting(key, read(**{key: value})) == expected


@for_each(
    ("key", "expected", "values"),
    [
        ("IBI_RESOLVER_DATABASE_URI", "a text", [True, ["x"]]),
        ("IBI_RESOLVER_SERVICE_IBI", "an IBI", ["urlib", "x y", 5]),
        ("IBI_RESOLVER_SERVICE_IBI", "not a legacy", ["83LX3pFwXQZeBBx/hwiTk"]),
        ("IBI_DATABASE_TIMEOUT", "more than 0", [0, 3601]),
        ("IBI_RESOLVER_ARCHIVE_TIMEOUT", "more than 0", [0, "0", -1, 3601, "x", "nan", 1e300]),
        ("IBI_RESOLVER_DEADLINE", "at most 3600", [0.0, "-1", "inf", True, [5]]),
        ("IBI_RESOLVER_MAX_ANSWER", "a whole number, 1 or more", [0, "0", 1.5, True, "1k"]),
        ("IBI_RESOLVER_MAX_ROUNDS", "a whole number, 1 or more", [0, -1, "x"]),
        ("IBI_RESOLVER_MAX_CONNECTIONS", "a whole number, 1 or more", [0, "x"]),
        ("IBI_RESOLVER_INNER_HOSTS", "a list of names", [5, ["a.corp", 5], "a..b", "10.0.0.1/8"]),
        ("IBI_RESOLVER_EMAIL", "an e-mail address", ["urlib", 5]),
        ("IBI_RESOLVER_REGISTRY", "true or false", ["perhaps", 2]),
        ("IBI_RESOLVER_REGISTRY_PASSWORDS_IN_URLS", "true or false", ["perhaps", 2]),
        ("IBI_RESOLVER_REGISTRY_MINT_PORT", "a port", [0, 65536, "x"]),
        ("IBI_TRUSTED_PROXIES", "a list of networks", ["proxy", 5]),
        ("SERVER_NAME", "host", ["http://urlib.net", "urlib.net/x"]),
        ("PREFERRED_URL_SCHEME", "http or https", ["gopher"]),
    ],
)
def test_an_invalid_value_is_reported_in_one_line_with_its_key(
    key: str, expected: str, values: list[Any]
) -> None:
    for value in values:
        with pytest.raises(ConfigError) as refusal:
            read(**{key: value})
        assert refusal.value.key == key
        assert expected in str(refusal.value)
        assert "\n" not in str(refusal.value)


@for_each(
    ("config", "expected"),
    [
        ({}, "IBI_RESOLVER_REGISTRY_MINT_HOST is not set; it should be a domain name"),
        ({"SERVER_NAME": "localhost:5000"}, "is 'localhost'; it should be a domain name"),
        ({"IBI_RESOLVER_REGISTRY_MINT_HOST": "a_b.example"}, "is 'a_b.example'; it should be"),
        ({"IBI_RESOLVER_REGISTRY_MINT_HOST": "a." * 117 + "br"}, "255 are allowed"),
    ],
)
def test_a_document_registry_needs_a_host_name_for_its_identifiers(
    config: dict[str, Any], expected: str
) -> None:
    read(**config)
    with pytest.raises(ConfigError, match="IBI_RESOLVER_REGISTRY_MINT_HOST") as refusal:
        read(IBI_RESOLVER_REGISTRY=True, **config)
    assert expected in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_the_host_name_of_a_document_registry_is_that_of_the_server() -> None:
    config = read(IBI_RESOLVER_REGISTRY=True, SERVER_NAME="urlib.net:8080")
    assert config.registry_mint_host == "urlib.net"


def test_an_invalid_database_uri_is_not_shown() -> None:
    with pytest.raises(ConfigError, match=r"IBI_RESOLVER_DATABASE_URI is '\(hidden\)'"):
        read(IBI_RESOLVER_DATABASE_URI=["postgresql://a:secret@b/c"])


def test_the_service_url_is_known_if_server_name_is_set() -> None:
    assert read().service_url is None
    told = read(SERVER_NAME="urlib.net", PREFERRED_URL_SCHEME="https")
    assert told.service_url == "https://urlib.net/J8LNKB5R7W/3FUQHC5"


def test_the_settings_that_pages_read_are_those_of_both() -> None:
    app = Flask("resolver")
    app.config |= {"IBI_ARCHIVE_NAME": "Urlib", "IBI_RESOLVER_DATABASE_URI": "sqlite://"}
    IBIResolver(app)
    with app.app_context():
        shared = get_type_hints(shared_config)["return"]
        assert isinstance(shared_config(), shared)
        assert shared_config().archive_name == "Urlib"
    assert issubclass(ArchiveConfig, shared)


def test_only_unknown_keys_are_warned_of() -> None:
    assert list(find_unknown_keys(DEFAULTS, ArchiveConfig, ResolverConfig)) == []
    assert list(find_unknown_keys({"IBI_RESOLVER_DEADLIN": 1}, ResolverConfig)) == [
        ("IBI_RESOLVER_DEADLIN", "IBI_RESOLVER_DEADLINE")
    ]
