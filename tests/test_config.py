"""The settings: the default of each key, valid and wrong values, secrets, messages."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import version
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import inspect
from support.archives import archive_of, everything_in
from support.vectors import load

from flask_ibi_archive import ItemRecord
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.core.protocol.hosts import extract_host
from flask_ibi_archive.core.protocol.url_list import ArchiveUrls
from flask_ibi_archive.errors import ConfigError
from flask_ibi_archive.resolver.config import ResolverConfig
from flask_ibi_archive.server.config import ArchiveConfig, find_unknown_keys
from flask_ibi_archive.server.start import hide_password, open_database

#: Defaults, valid values with what is parsed, and wrong values with a part of the message.
VALUES = load("settings.json")
SECRET = "do-not-show-me"


def read(**config: Any) -> ArchiveConfig:
    return ArchiveConfig.from_mapping({"SECRET_KEY": "s", **config}, "/srv/instance")


# --- defaults and values -------------------------------------------------------------------------


def setting(key: str, config: ArchiveConfig) -> Any:
    """Return a setting as the JSON file has it."""
    return plain(getattr(config, key.removeprefix("IBI_").lower()))


def plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [plain(one) for one in value]
    return value if isinstance(value, bool | int | float | str | None) else str(value)


@pytest.mark.rule("R2-03", "R4-02")
def test_a_key_that_is_not_set_has_its_default() -> None:
    platform = f"flask_ibi_archive-{version('flask_ibi_archive')}"
    defaults = {"IBI_ARCHIVE_PLATFORM_VERSION": platform, **VALUES["defaults"]}
    for key, default in defaults.items():
        for config in ({}, {key: None}, {key: ""}):
            assert setting(key, read(**config)) == default, key
    assert defaults.keys() <= {key for key, *_ in VALUES["wrong"]} | {"IBI_REGISTRATION_KEY"}


@pytest.mark.rule("R4-04")
def test_a_valid_value_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value, expected in VALUES["right"]:
        assert setting(key, read(**{key: value})) == expected, (key, value)
    network = ip_network("10.0.0.0/8")
    assert read(IBI_TRUSTED_PROXIES=[network]).trusted_proxies == (network,)
    assert read(IBI_FILES_FOLDER=Path("/srv/files")).files_folder == Path("/srv/files")
    # files and keys are in one folder, unless the files are elsewhere
    folders = [{"IBI_FOLDER": "/data"}, {"IBI_FOLDER": "/data", "IBI_FILES_FOLDER": "/big"}]
    assert [str(read(**one).files_folder) for one in folders] == ["/data/ibi_files", "/big"]
    assert [str(read(**one).claims_folder) for one in folders] == ["/data/ibi_claims"] * 2
    # the Archive and the resolver send requests to the same internal hosts
    for config in (
        read(IBI_INNER_HOSTS=".corp"),
        ResolverConfig.from_mapping({"IBI_INNER_HOSTS": ".corp"}, ""),
    ):
        assert "files.corp" in config.inner_hosts
    # and in the environment
    app = Flask("from_the_environment")
    for key, text, expected in VALUES["environment"]:
        with monkeypatch.context() as patch:
            patch.setenv(f"FLASK_{key}", text)
            app.config.from_prefixed_env()
        assert setting(key, read(**{key: app.config[key]})) == expected, (key, text)


@pytest.mark.rule("R4-04")
@pytest.mark.parametrize(("key", "expected", "values"), VALUES["wrong"])
def test_the_error_of_a_wrong_value_shows_key_value_and_allowed_values_in_one_line(
    key: str, expected: str, values: list[Any]
) -> None:
    for value in values:
        with pytest.raises(ConfigError) as refusal:
            read(**{key: value})
        line = str(refusal.value)
        shown = "(hidden)" if key == "IBI_DATABASE_URI" else value
        assert line.startswith(f"{key} is {shown!r}; it should be "), value
        assert expected in line
        assert "\n" not in line
        assert refusal.value.key == key


def test_the_default_of_the_address_is_the_server_name() -> None:
    assert read(SERVER_NAME="a.br:8000").archive_address == "a.br:8000"
    assert read(SERVER_NAME="a.br", IBI_ARCHIVE_ADDRESS="b.br").archive_address == "b.br"
    assert read(IBI_ARCHIVE_ADDRESS="b.br", PREFERRED_URL_SCHEME="https").base_url == "https://b.br"


# --- secrets -------------------------------------------------------------------------------------


def test_a_secret_is_required_and_the_newest_is_the_last() -> None:
    for missing in ({}, {"SECRET_KEY": None}, {"SECRET_KEY": ""}, {"SECRET_KEY": b""}):
        with pytest.raises(ConfigError, match=r"^SECRET_KEY is .*it should be a long random text"):
            ArchiveConfig.from_mapping(missing, "/srv")
    for fallbacks, secrets in (
        (None, ("s",)),
        ([], ("s",)),
        (["newer", b"older"], (b"older", "newer", "s")),
        (("newer", 12345), ("12345", "newer", "s")),
    ):
        assert read(SECRET_KEY_FALLBACKS=fallbacks).secret_keys == secrets
    assert read(SECRET_KEY=12345).secret_keys == ("12345",)


#: Wrong secrets by key.
HIDDEN: dict[str, list[Any]] = {
    "SECRET_KEY_FALLBACKS": [
        # each letter of a text would become a secret, and an empty secret protects nothing
        *(SECRET, SECRET.encode(), [SECRET, ""], [SECRET, b""], [SECRET, None], {SECRET: 1}),
    ],
    "SECRET_KEY": [[SECRET], {SECRET: 1}],
    "IBI_REGISTRATION_KEY": [SECRET, [SECRET], f"1234567890-{SECRET}", "123456789", 123456789],
    "IBI_DATABASE_URI": [[f"postgresql://u:{SECRET}@h/x"]],
}


@pytest.mark.parametrize("key", HIDDEN)
def test_a_secret_is_never_shown(key: str) -> None:
    for value in HIDDEN[key]:
        with pytest.raises(ConfigError) as refusal:
            read(**{key: value})
        assert refusal.value.key == key
        assert str(refusal.value).startswith(f"{key} is '(hidden)'; it should be ")
        for text in (str(refusal.value), repr(refusal.value)):
            assert SECRET not in text
            assert "123456789" not in text


@pytest.mark.parametrize("begin", ["postgresql://", "postgresql:/", "", "://", "nosuch://"])
def test_an_invalid_database_url_is_reported_without_its_password(begin: str) -> None:
    for end in (
        f"u:{SECRET}@h:port/x",
        f"u:p@ss:{SECRET}@h:port/x",
        f"u:p@{SECRET}:{SECRET}@h:port/x",
        f"h:port/x?password={SECRET}",
        f"u:{SECRET}\n@h:port/x",
    ):
        with pytest.raises(
            ConfigError, match=r"^IBI_DATABASE_URI is .*it should be a SQLAlchemy URL"
        ) as refusal:
            open_database(read(IBI_DATABASE_URI=begin + end).database_uri, 5)
        assert SECRET not in str(refusal.value)
        assert "\n" not in str(refusal.value)
        assert SECRET not in hide_password(begin + end)


def test_a_folder_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        ConfigError,
        match=r"^IBI_DATABASE_URI is 'sqlite:.*folder that exists or can be created \(.*/file/x: ",
    ):
        open_database(
            read(IBI_DATABASE_URI=f"sqlite:///{tmp_path}/file/x/ibi.sqlite").database_uri, 5
        )


def test_a_missing_driver_is_reported_with_the_command_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ConfigError, match="driver is installed") as refusal:
        open_database(read(IBI_DATABASE_URI=f"postgresql://u:{SECRET}@h/x").database_uri, 5)
    assert str(refusal.value).endswith("run: pip install 'flask_ibi_archive[postgresql]'")
    assert SECRET not in str(refusal.value)


# --- unknown keys ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("IBI_GRANULARTY", "; did you mean IBI_GRANULARITY?"),
        ("IBI_RESOLVER_DEADLIN", "; did you mean IBI_RESOLVER_DEADLINE?"),
        ("IBI_ZZZZZZZZZZZZZZZZ", ""),
    ],
)
def test_an_unknown_key_is_logged_as_a_warning(
    new_app: Callable[..., Flask], caplog: pytest.LogCaptureFixture, key: str, hint: str
) -> None:
    new_app(**{key: SECRET})
    assert caplog.messages == [f"{key} is not a setting of flask_ibi_archive{hint}"]


def test_no_known_key_is_logged_as_a_warning() -> None:
    resolver = "IBI_RESOLVER_DATABASE_URI", "IBI_RESOLVER_SERVICE_IBI", "IBI_RESOLVER_MAX_ROUNDS"
    known = dict.fromkeys([*VALUES["defaults"], *resolver, "SECRET_KEY", "X"])
    assert list(find_unknown_keys(known, ArchiveConfig, ResolverConfig)) == []
    unknown = find_unknown_keys({"IBI_SECRET_KEYS": 1, "IBI_URL_SCHEME": 1}, ArchiveConfig)
    assert [key for key, _ in unknown] == ["IBI_SECRET_KEYS", "IBI_URL_SCHEME"]


# --- errors at the start -----------------------------------------------------------------


# --- settings for minting ------------------------------------------------------------------------


@pytest.mark.rule("G6-11")
def test_an_unusable_mint_host_is_an_error_when_minting() -> None:
    for host, reason in VALUES["unusable_hosts"]:
        config = read(IBI_MINT_HOST=host, IBI_ARCHIVE_IP="150.163.34.243")
        with pytest.raises(ConfigError, match="a domain name of two words or more") as refusal:
            config.check_minting()
        assert (refusal.value.key, refusal.value.value) == ("IBI_MINT_HOST", host)
        assert "\n" not in str(refusal.value)
        assert reason in str(refusal.value)


def test_a_host_name_and_an_ip_address_are_sufficient_for_minting() -> None:
    config = read(IBI_ARCHIVE_ADDRESS="mtc-m18.sid.inpe.br:8080", IBI_ARCHIVE_IP="150.163.34.243")
    assert config.check_minting() == ("sid.inpe.br/mtc-m18.8080", "8JMKD3MGP8WD49")
    config = read(IBI_MINT_HOST="a.br", IBI_ARCHIVE_IP="150.163.34.243", IBI_MINT_PORT=802)
    assert config.check_minting() == ("br/a.802", "8JMKD3MGP8W34M")
    # the default of the host is that of the address
    for address, host in (
        ("localhost:5000", "localhost"),
        ("mtc-m18.sid.inpe.br", "mtc-m18.sid.inpe.br"),
        ("150.163.34.243:80", "150.163.34.243"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("[2001:db8::1]:8080", "2001:db8::1"),
    ):
        assert extract_host(address) == read(IBI_ARCHIVE_ADDRESS=address).mint_host == host


def test_a_trial_on_one_computer_needs_no_host_name() -> None:
    for address in ("localhost:5000", "127.0.0.1:5000", "[::1]:5000"):
        config = read(IBI_ARCHIVE_ADDRESS=address, IBI_ARCHIVE_IP="127.0.0.1")
        assert config.check_minting()[0] == "localdomain/localhost.5000"
    # a public server with a forgotten address, and a server that names its host, are no trials
    config = read(IBI_ARCHIVE_ADDRESS="localhost:5000", IBI_ARCHIVE_IP="150.163.34.243")
    assert config.mint_host == "localhost"
    assert read(IBI_MINT_HOST="a.br", IBI_ARCHIVE_IP="127.0.0.1").mint_host == "a.br"


#: Settings with which nothing can be minted, and the key that the error names.
NEEDS = [
    pytest.param({"IBI_ARCHIVE_IP": None}, "IBI_ARCHIVE_IP", id="no IP"),
    pytest.param({"IBI_ARCHIVE_ADDRESS": "localhost:5000"}, "IBI_MINT_HOST", id="localhost"),
    pytest.param(
        {"IBI_ARCHIVE_ADDRESS": "[2001:db8::1]:80"}, "IBI_MINT_HOST", id="IPv6 in brackets"
    ),
    pytest.param({"IBI_MINT_HOST": "150.163.34.243"}, "IBI_MINT_HOST", id="IP"),
]


@pytest.mark.no_tables
@pytest.mark.parametrize(("config", "key"), NEEDS)
def test_init_without_the_settings_for_minting_writes_nothing(
    new_app: Callable[..., Flask], config: dict[str, Any], key: str
) -> None:
    archive = archive_of(new_app(IBI_ARCHIVE_SERVICE_IBI=None, **config))
    with pytest.raises(ConfigError, match=f"^{key} ") as refusal:
        archive.init()
    assert refusal.value.key == key
    with archive.database.reading() as connection:
        assert inspect(connection).get_table_names() == []


def test_init_with_a_service_ibi_needs_no_settings_for_minting(
    new_app: Callable[..., Flask], tmp_path: Path
) -> None:
    archive = archive_of(new_app(IBI_ARCHIVE_IP=None))
    assert archive.init()[1]
    file = tmp_path / "report.txt"
    file.write_text("report")
    before = everything_in(archive)
    for attempt in (archive.mint, lambda: archive.deposit(ItemRecord(), [file])):
        with pytest.raises(ConfigError, match=r"^IBI_ARCHIVE_IP ") as refusal:
            attempt()
        assert refusal.value.key == "IBI_ARCHIVE_IP"
    assert everything_in(archive) == before


def test_an_archive_that_is_printed_shows_no_secret() -> None:
    config = read(SECRET_KEY=SECRET, IBI_DATABASE_URI=f"sqlite:////tmp/{SECRET}")
    database = open_database("sqlite://", 5)
    archive = Archive(config, database, ArchiveUrls(config.base_url))
    database.close()
    assert SECRET not in f"{config!r} {archive!r}"
