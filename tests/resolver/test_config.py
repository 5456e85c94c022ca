"""The settings of a resolver."""

from __future__ import annotations

from typing import Any

import pytest

from flask_ibi_archive.errors import ConfigError
from flask_ibi_archive.resolver.config import ResolverConfig
from flask_ibi_archive.server.config import list_keys


def read(**config: Any) -> ResolverConfig:
    return ResolverConfig.from_mapping(config, "/srv/instance")


#: The own settings of a resolver: the default, a valid value as text, the parsed value, and a wrong
#: value. The parsers and the shared settings are tested in tests/test_config.py.
SETTINGS: dict[str, tuple[Any, Any, Any, Any]] = {
    "DATABASE_URI": (
        "sqlite:////srv/instance/ibi_resolver.sqlite",
        "postgresql://a@b/c",
        "postgresql://a@b/c",
        ["x"],
    ),
    "SERVICE_IBI": ("J8LNKB5R7W/3FUQHC5", "j8lnkb5r7w/3fuqhc4", "J8LNKB5R7W/3FUQHC4", "urlib"),
    "ARCHIVE_TIMEOUT": (5, "0.5", 0.5, 0),
    "DEADLINE": (10, "3600", 3600.0, 3601),
    "MAX_ANSWER": (65536, "1024", 1024, 0),
    "MAX_ROUNDS": (16, "1", 1, -1),
    "FOLLOW": (False, "yes", True, "perhaps"),
    "CLAIMS_INTERVAL": (30, "10", 10.0, 0),
    "CLAIMS_MAX_AGE": (300, "90", 90.0, 0),
    "EMAIL": (None, "urlib@example.org", "urlib@example.org", "urlib"),
    "REGISTRY": (False, "no", False, "perhaps"),
    "REGISTRY_ALLOWED": (
        frozenset(),
        "8jmkd3mgp8w/34pgrbs",
        frozenset({"8JMKD3MGP8W/34PGRBS"}),
        "urlib",
    ),
}


def test_every_key_is_tested() -> None:
    own = {key for key in list_keys(ResolverConfig) if key.startswith("IBI_RESOLVER_")}
    assert own == {f"IBI_RESOLVER_{name}" for name in SETTINGS}


@pytest.mark.parametrize(("name", "values"), SETTINGS.items())
def test_a_setting_has_a_default_and_is_parsed(name: str, values: tuple[Any, ...]) -> None:
    default, valid, expected, wrong = values
    key, field = f"IBI_RESOLVER_{name}", name.lower()
    for missing in ({}, {key: None}, {key: ""}):
        assert getattr(read(**missing), field) == default
    assert getattr(read(**{key: valid}), field) == expected
    with pytest.raises(ConfigError) as refusal:
        read(**{key: wrong})
    assert refusal.value.key == key
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, "IBI_MINT_HOST is not set; it should be a domain name"),
        ({"SERVER_NAME": "localhost:5000"}, "is 'localhost'; it should be a domain name"),
        ({"IBI_MINT_HOST": "a_b.example"}, "is 'a_b.example'; it should be"),
        ({"IBI_MINT_HOST": "a." * 117 + "br"}, "255 are allowed"),
    ],
)
def test_a_document_registry_needs_a_host_name_for_its_identifiers(
    config: dict[str, Any], expected: str
) -> None:
    read(**config)
    with pytest.raises(ConfigError, match="IBI_MINT_HOST") as refusal:
        read(IBI_RESOLVER_REGISTRY=True, **config)
    assert expected in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_the_host_name_of_a_document_registry_is_that_of_the_server() -> None:
    config = read(IBI_RESOLVER_REGISTRY=True, SERVER_NAME="urlib.net:8080")
    assert config.mint_host == "urlib.net"
