"""The settings: the default of each key, valid and wrong values, secrets, messages."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from fractions import Fraction
from importlib.metadata import version
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import inspect
from support.archives import archive_of, paths_in_store
from support.cases import for_each
from support.commands import command as run_command
from support.commands import process

from flask_ibi_archive import IBIArchive, ItemRecord
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.core.protocol.hosts import extract_host
from flask_ibi_archive.core.protocol.url_list import ArchiveUrls
from flask_ibi_archive.errors import ConfigError, NotReady
from flask_ibi_archive.resolver.config import ResolverConfig
from flask_ibi_archive.server.config import ArchiveConfig, find_unknown_keys
from flask_ibi_archive.server.start import hide_password, open_database

SECRET = "do-not-show-me"
REP = "sid.inpe.br/mtc-m18@80/2008/03.17.15.17"
IBIP = "J8LNKB5R7W/3FUQHC5"


def read(**config: Any) -> ArchiveConfig:
    return ArchiveConfig.from_mapping({"SECRET_KEY": "s", **config}, "/srv/instance")


# --- defaults and values -------------------------------------------------------------------------

#: The parsed default of each key.
DEFAULTS = {
    "IBI_DATABASE_URI": "sqlite:////srv/instance/ibi_archive.sqlite",
    "IBI_DATABASE_TIMEOUT": 5,
    "IBI_ARCHIVE_ADDRESS": "localhost:5000",
    "IBI_ARCHIVE_SERVICE_IBI": None,
    "IBI_ARCHIVE_IP": None,
    "IBI_ARCHIVE_PLATFORM_VERSION": f"flask_ibi_archive-{version('flask_ibi_archive')}",
    "IBI_ARCHIVE_ADMIN_EMAIL": None,
    "IBI_PLATFORM_SOFTWARE_IBI": None,
    "IBI_REGISTRATION_KEY": None,
    "IBI_RESOLVER_URL": "http://urlib.net/J8LNKB5R7W/3FUQHC5",
    "IBI_PERSISTENT_URL_BASE": "http://urlib.net",
    "IBI_GRANULARITY": Fraction(1, 1000),
    "IBI_MINT_HOST": "localhost",
    "IBI_MINT_PORT": (5000, 5000),
    "IBI_MINT_MAX_WAIT": 10,
    "IBI_RELATIONS": None,
    "IBI_FILTER_URL_LIST": True,
    "IBI_FOLLOW_EDITIONS": True,
    "IBI_URL_KEY_MAX_AGE": 3600,
    "IBI_LOCAL_RESOLUTION": True,
    "IBI_FILES_FOLDER": Path("/srv/instance/ibi_files"),
    "IBI_TRUSTED_PROXIES": (),
}

#: Key, value, parsed value.
RIGHT: list[tuple[str, Any, Any]] = [
    ("IBI_DATABASE_URI", "postgresql://u@h/x", "postgresql://u@h/x"),
    ("IBI_DATABASE_TIMEOUT", "0.5", 0.5),
    ("IBI_ARCHIVE_ADDRESS", "mtc-m16c.sid.inpe.br:8080", "mtc-m16c.sid.inpe.br:8080"),
    ("IBI_ARCHIVE_ADDRESS", "150.163.2.174", "150.163.2.174"),
    ("IBI_ARCHIVE_ADDRESS", "[2001:db8::1]:8080", "[2001:db8::1]:8080"),
    ("IBI_ARCHIVE_SERVICE_IBI", REP.upper(), REP),
    ("IBI_ARCHIVE_SERVICE_IBI", IBIP.lower(), IBIP),
    ("IBI_ARCHIVE_IP", "2001:DB8:0::1", "2001:db8::1"),
    ("IBI_ARCHIVE_IP", "::ffff:150.163.34.243", "150.163.34.243"),
    ("IBI_ARCHIVE_PLATFORM_VERSION", "2014:11.09.02.16.15", "2014:11.09.02.16.15"),
    ("IBI_ARCHIVE_PLATFORM_VERSION", 2014, "2014"),
    ("IBI_ARCHIVE_ADMIN_EMAIL", "banon@dpi.inpe.br", "banon@dpi.inpe.br"),
    ("IBI_REGISTRATION_KEY", "1424636122-5331490054869684", "1424636122-5331490054869684"),
    ("IBI_REGISTRATION_KEY", 1234567890, "1234567890"),
    ("IBI_REGISTRATION_KEY", 10**30, "1" + "0" * 30),
    ("IBI_REGISTRATION_KEY", "0123456789", "0123456789"),
    ("IBI_RESOLVER_URL", "https://[::1]:8443/x/", "https://[::1]:8443/x"),
    ("IBI_PERSISTENT_URL_BASE", "http://urlib.net/", "http://urlib.net"),
    *[("IBI_GRANULARITY", value, Fraction(60)) for value in ("60", 60, 60.0)],
    *[("IBI_GRANULARITY", value, Fraction(1)) for value in ("1", 1, 1.0, "1.0")],
    *[("IBI_GRANULARITY", value, Fraction(1, 1000)) for value in ("0.001", 0.001, 1e-3)],
    *[("IBI_GRANULARITY", value, Fraction(1, 10**6)) for value in ("0.000001", 0.000001)],
    ("IBI_MINT_HOST", "mtc-m18.sid.inpe.br", "mtc-m18.sid.inpe.br"),
    ("IBI_MINT_PORT", 8080, (8080, 8080)),
    ("IBI_MINT_PORT", "8080", (8080, 8080)),
    ("IBI_MINT_PORT", "80,802", (80, 802)),
    ("IBI_MINT_PORT", [80, 802], (80, 802)),
    ("IBI_MINT_MAX_WAIT", 0, 0),
    ("IBI_MINT_MAX_WAIT", "2.5", 2.5),
    ("IBI_RELATIONS", [], ()),
    ("IBI_FILTER_URL_LIST", False, False),
    ("IBI_FILTER_URL_LIST", "no", False),
    ("IBI_FOLLOW_EDITIONS", 0, False),
    ("IBI_LOCAL_RESOLUTION", "True", True),
    ("IBI_IDENTIFICATION", "true", True),
    ("IBI_URL_KEY_MAX_AGE", 60, 60),
    ("IBI_FILES_FOLDER", Path("/srv/files"), Path("/srv/files")),
    ("IBI_FILES_FOLDER", 2024, Path("2024")),
    ("IBI_TRUSTED_PROXIES", ["10.0.0.0/8", "::1"], (ip_network("10.0.0.0/8"), ip_network("::1"))),
    ("IBI_TRUSTED_PROXIES", "10.0.0.0/8, ::1", (ip_network("10.0.0.0/8"), ip_network("::1"))),
    ("IBI_TRUSTED_PROXIES", [ip_network("10.0.0.0/8")], (ip_network("10.0.0.0/8"),)),
]  # fmt: skip

#: Key, part of the message, wrong values.
WRONG: list[tuple[str, str, list[Any]]] = [
    ("IBI_DATABASE_URI", "a text", [["sqlite://"], True]),
    (
        "IBI_DATABASE_TIMEOUT",
        "more than 0",
        [0, "0", -1, 3601, "x", "nan", "inf", True, [5], 1e300],
    ),
    ("IBI_KEEP_ACCESSES", "a whole number, 1 or more", [0, "0", -1, 1.5, True, "1k"]),
    ("IBI_INNER_HOSTS", "a list of names", [5, ["a.corp", 5], "a..b", "10.0.0.1/8"]),
    (
        "IBI_ARCHIVE_ADDRESS",
        "without http://",
        [
            "http://a.br",
            "a.br/x",
            "a.br:",
            "a.br:0",
            "a.br:65536",
            "a b",
            "-a.br",
            "[::1",
            "[:::]",
            "[1.2.3.4.5]",
            "a.br\n",
            5000,
            True,
        ],
    ),
    (
        "IBI_ARCHIVE_SERVICE_IBI",
        "an IBI",
        ["x", "8JMKD3MGP8W/34PGRB0", "sid.inpe.br/mtc-m19/2010/13.25.12.38", 7, f" {IBIP}"],
    ),
    ("IBI_ARCHIVE_SERVICE_IBI", "not a legacy identifier", ["kLwpN6zZ/kfnE"]),
    (
        "IBI_ARCHIVE_IP",
        "an IPv4 or IPv6 address",
        [
            "mtc-m18.sid.inpe.br",
            "150.163.34",
            "150.163.34.256",
            "fe80::1%eth0",
            "10.0.0.0/8",
            2522030835,
            True,
        ],
    ),
    (
        "IBI_ARCHIVE_PLATFORM_VERSION",
        "one word of ASCII",
        ["a b", "{a}", "versão", ["1"], True],
    ),
    (
        "IBI_ARCHIVE_ADMIN_EMAIL",
        "an e-mail address",
        ["banon", "a@b@c", "a b@c.br", "@c.br", "joão@inpe.br", 5],
    ),
    ("IBI_PLATFORM_SOFTWARE_IBI", "an IBI", ["{}", "banon", 5]),
    (
        "IBI_RESOLVER_URL",
        "an http or https URL",
        [
            "urlib.net",
            "ftp://urlib.net",
            "http://",
            "http://urlib.net/?a=b",
            "http://urlib.net/#a",
            "http://urlib net",
            "http://[::1",
            "http://a:b",
            "http://a:0",
            "http://a:99999",
            5,
        ],
    ),
    (
        "IBI_PERSISTENT_URL_BASE",
        "an http or https URL",
        ["//urlib.net", "http://ürlib.net", ["http://urlib.net"]],
    ),
    (
        "IBI_GRANULARITY",
        '"60", "1", "0.1"',
        ["10", 10, "0.5", "0", -1, "1e-3", "1/10", 0.3, "sixty", True, "60 ", ["1"]],
    ),
    (
        "IBI_MINT_PORT",
        "a port, 1 to 65535",
        [0, -1, 65536, "eighty", "8" * 5000, 80.5, True, "٨٠", "80,802,803"],
    ),
    (
        "IBI_MINT_MAX_WAIT",
        "a number of seconds",
        [-1, "soon", "nan", "inf", float("inf"), True, [1], 10**400],
    ),
    ("IBI_URL_KEY_MAX_AGE", "a number of seconds", [-0.5, "1h"]),
    (
        "IBI_RELATIONS",
        "a list of relations",
        [".metadata", [".metadados"], [5], {"": 1}, [".metadata.lastedition"], True],
    ),
    ("IBI_FILTER_URL_LIST", "true or false", ["maybe", 2, [], "2"]),
    ("IBI_FOLLOW_EDITIONS", "true or false", [{}]),
    ("IBI_LOCAL_RESOLUTION", "true or false", [0.5]),
    ("IBI_FILES_FOLDER", "the path of a folder", ["a\0b", ["x"], True]),
    (
        "IBI_TRUSTED_PROXIES",
        "a list of networks",
        ["10.0.0.1/8", ["proxy.inpe.br"], [5], [True], {"a": 1}, 10],
    ),
    ("IBI_MINT_HOST", "a text", [["a.br"], True]),
    ("PREFERRED_URL_SCHEME", "http or https", ["gopher"]),
]


def setting(key: str, config: ArchiveConfig) -> Any:
    return getattr(config, key.removeprefix("IBI_").lower())


@pytest.mark.rule("R2-03", "R4-02")
@for_each(("key", "default"), DEFAULTS.items())
@for_each("empty", [None, ""])
def test_a_key_that_is_not_set_has_its_default(key: str, default: Any, empty: Any) -> None:
    assert setting(key, read()) == default
    assert setting(key, read(**{key: empty})) == default


@pytest.mark.rule("R4-04")
@for_each(("key", "value", "expected"), RIGHT)
def test_a_valid_value_is_parsed(key: str, value: Any, expected: Any) -> None:
    assert setting(key, read(**{key: value})) == expected


@pytest.mark.rule("R4-04")
@for_each(
    ("key", "expected", "value"),
    [(key, expected, value) for key, expected, values in WRONG for value in values],
)
def test_the_error_of_a_wrong_value_shows_key_value_and_allowed_values_in_one_line(
    key: str, expected: str, value: Any
) -> None:
    with pytest.raises(ConfigError) as refusal:
        read(**{key: value})
    line = str(refusal.value)
    shown = "'(hidden)'" if key == "IBI_DATABASE_URI" else None
    if shown is None and not (isinstance(value, int) and value > 10**300):
        shown = repr(value)
    assert line.startswith(f"{key} is {shown or ''}")
    assert "; it should be " in line
    assert expected in line
    assert "\n" not in line
    assert refusal.value.key == key


def test_every_key_is_tested() -> None:
    tried = {key for key, *_ in WRONG} | {"IBI_REGISTRATION_KEY"}
    assert set(DEFAULTS) <= tried


def test_relations_are_a_list_of_patterns() -> None:
    relations = read(IBI_RELATIONS=["", ".lastedition", ".translation(*)"]).relations
    assert relations is not None
    assert len(relations) == 3


def test_the_default_of_the_address_is_the_server_name() -> None:
    assert read(SERVER_NAME="a.br:8000").archive_address == "a.br:8000"
    assert read(SERVER_NAME="a.br", IBI_ARCHIVE_ADDRESS="b.br").archive_address == "b.br"
    assert read(IBI_ARCHIVE_ADDRESS="b.br", PREFERRED_URL_SCHEME="https").base_url == "https://b.br"


# --- secrets -------------------------------------------------------------------------------------


@for_each("missing", [{}, {"SECRET_KEY": None}, {"SECRET_KEY": ""}, {"SECRET_KEY": b""}])
def test_a_secret_is_required(missing: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"^SECRET_KEY is .*it should be a long random text"):
        ArchiveConfig.from_mapping(missing, "/srv")


@for_each(
    ("fallbacks", "secrets"),
    [
        (None, ("s",)),
        ([], ("s",)),
        (["newer", b"older"], (b"older", "newer", "s")),
        (("newer", 12345), ("12345", "newer", "s")),
    ],
)
def test_the_newest_secret_is_the_last_one(fallbacks: Any, secrets: tuple[Any, ...]) -> None:
    assert read(SECRET_KEY_FALLBACKS=fallbacks).secret_keys == secrets


def test_a_secret_that_is_a_number_is_its_digits() -> None:
    assert read(SECRET_KEY=12345).secret_keys == ("12345",)


@for_each(
    ("key", "value"),
    [
        # each letter of a text would become a secret
        ("SECRET_KEY_FALLBACKS", SECRET),
        ("SECRET_KEY_FALLBACKS", SECRET.encode()),
        # an empty secret protects nothing
        ("SECRET_KEY_FALLBACKS", [SECRET, ""]),
        ("SECRET_KEY_FALLBACKS", [SECRET, b""]),
        ("SECRET_KEY_FALLBACKS", [SECRET, None]),
        ("SECRET_KEY_FALLBACKS", {SECRET: 1}),
        ("SECRET_KEY", [SECRET]),
        ("SECRET_KEY", {SECRET: 1}),
        ("IBI_REGISTRATION_KEY", SECRET),
        ("IBI_REGISTRATION_KEY", [SECRET]),
        ("IBI_REGISTRATION_KEY", f"1234567890-{SECRET}"),
        ("IBI_REGISTRATION_KEY", "123456789"),
        ("IBI_REGISTRATION_KEY", 123456789),
        ("IBI_DATABASE_URI", [f"postgresql://u:{SECRET}@h/x"]),
    ],
)
def test_a_secret_is_never_shown(key: str, value: Any) -> None:
    with pytest.raises(ConfigError) as refusal:
        read(**{key: value})
    assert refusal.value.key == key
    assert str(refusal.value).startswith(f"{key} is '(hidden)'; it should be ")
    for text in (str(refusal.value), repr(refusal.value)):
        assert SECRET not in text
        assert "123456789" not in text


@for_each(
    "uri",
    [
        f"postgresql://u:{SECRET}@h:port/x",
        f"postgresql:/u:{SECRET}@h/x",
        f"u:{SECRET}@h",
        f"://u:{SECRET}@h/x",
        f"nosuch://u:{SECRET}@h/x",
        f"postgresql+nosuch://u:{SECRET}@h/x",
        f"postgresql://u:p@ss:{SECRET}@h/x",
        f"postgresql://u:p@{SECRET}:{SECRET}@h/x",
        f"postgresql://h/x?port=five&password={SECRET}",
        f"nosuch://u:{SECRET}\n@h/x",
    ],
)
def test_an_invalid_database_url_is_reported_without_its_password(uri: str) -> None:
    with pytest.raises(
        ConfigError, match=r"^IBI_DATABASE_URI is .*it should be a SQLAlchemy URL"
    ) as refusal:
        open_database(read(IBI_DATABASE_URI=uri).database_uri, 5)
    assert SECRET not in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert SECRET not in hide_password(uri)


def test_an_unreachable_database_is_reported_without_its_password() -> None:
    database = open_database(
        read(IBI_DATABASE_URI=f"postgresql://u:{SECRET}@127.0.0.1:1/x").database_uri, 5
    )
    with pytest.raises(NotReady, match="IBI_DATABASE_URI") as refusal, database.reading():
        pass
    assert SECRET not in str(refusal.value)
    assert SECRET not in repr(database.engine)
    database.close()


def test_a_folder_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        ConfigError,
        match=r"^IBI_DATABASE_URI is 'sqlite:.*folder that exists or can be created \(.*/file/x: ",
    ):
        open_database(
            read(IBI_DATABASE_URI=f"sqlite:///{tmp_path}/file/x/ibi.sqlite").database_uri, 5
        )


@pytest.mark.parametrize("scheme", ["postgresql", "postgresql+psycopg"])
def test_a_missing_driver_is_reported_with_the_command_to_install_it(
    monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ConfigError, match="driver is installed") as refusal:
        open_database(read(IBI_DATABASE_URI=f"{scheme}://u:{SECRET}@h/x").database_uri, 5)
    assert str(refusal.value).endswith("run: pip install 'flask_ibi_archive[postgresql]'")
    assert SECRET not in str(refusal.value)


def test_another_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg2", None)
    with pytest.raises(ConfigError, match=r"driver is installed \(.*psycopg2.*\)$"):
        open_database(read(IBI_DATABASE_URI="postgresql+psycopg2://u@h/x").database_uri, 5)


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
    known = dict.fromkeys([*DEFAULTS, *resolver, "SECRET_KEY", "X"])
    assert list(find_unknown_keys(known, ArchiveConfig, ResolverConfig)) == []
    unknown = find_unknown_keys({"IBI_SECRET_KEYS": 1, "IBI_URL_SCHEME": 1}, ArchiveConfig)
    assert [key for key, _ in unknown] == ["IBI_SECRET_KEYS", "IBI_URL_SCHEME"]


# --- values of the environment -------------------------------------------------------------------


@for_each(
    ("key", "text", "expected"),
    [
        ("IBI_REGISTRATION_KEY", "1234567890", "1234567890"),
        ("IBI_REGISTRATION_KEY", "0123456789", "0123456789"),
        ("IBI_REGISTRATION_KEY", "1424636122-5331490054869684", "1424636122-5331490054869684"),
        (
            "IBI_REGISTRATION_KEY",
            "123456789012345678901234567890",
            "123456789012345678901234567890",
        ),
        ("IBI_GRANULARITY", "60", Fraction(60)),
        ("IBI_GRANULARITY", "1", Fraction(1)),
        ("IBI_GRANULARITY", "0.001", Fraction(1, 1000)),
        ("IBI_GRANULARITY", "0.0000001", Fraction(1, 10**7)),
        ("IBI_GRANULARITY", '"0.1"', Fraction(1, 10)),
        ("IBI_FILTER_URL_LIST", "false", False),
        ("IBI_FOLLOW_EDITIONS", "no", False),
        ("IBI_MINT_PORT", "8080", (8080, 8080)),
        ("IBI_MINT_PORT", "80,802", (80, 802)),
        ("IBI_MINT_MAX_WAIT", "2.5", 2.5),
        ("IBI_ARCHIVE_ADDRESS", "a.br:8080", "a.br:8080"),
        ("IBI_ARCHIVE_IP", "150.163.34.243", "150.163.34.243"),
        ("IBI_FILES_FOLDER", "2024", Path("2024")),
        ("IBI_TRUSTED_PROXIES", '["10.0.0.0/8"]', (ip_network("10.0.0.0/8"),)),
        ("IBI_TRUSTED_PROXIES", "10.0.0.0/8", (ip_network("10.0.0.0/8"),)),
        ("IBI_ARCHIVE_ADMIN_EMAIL", "", None),
    ],
)
def test_a_setting_can_be_in_the_environment(
    monkeypatch: pytest.MonkeyPatch, key: str, text: str, expected: Any
) -> None:
    monkeypatch.setenv(f"FLASK_{key}", text)
    app = Flask("from_the_environment")
    app.config.from_prefixed_env()
    assert (
        setting(
            key, read(**app.config.get_namespace("IBI_", lowercase=False, trim_namespace=False))
        )
        == expected
    )


def test_relations_of_the_environment_are_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLASK_IBI_RELATIONS", json.dumps(["", ".metadata"]))
    app = Flask("from_the_environment")
    app.config.from_prefixed_env()
    assert len(read(IBI_RELATIONS=app.config["IBI_RELATIONS"]).relations or ()) == 2


# --- errors at the start -----------------------------------------------------------------


@for_each(
    ("key", "value"), [("IBI_GRANULARITY", "7"), ("SECRET_KEY", None), ("IBI_DATABASE_URI", "x")]
)
def test_a_wrong_setting_stops_the_start_of_the_app(key: str, value: Any) -> None:
    app = Flask("wrong")
    app.config.from_mapping({"SECRET_KEY": "s", key: value})
    with pytest.raises(ConfigError, match=f"^{key} is "):
        IBIArchive(app)
    assert "ibi_archive" not in app.extensions


@pytest.mark.parametrize(
    ("command", "config", "line"),
    [
        (
            ("list",),
            {"IBI_DATABASE_URI": f"postgresql://u:{SECRET}@h:x/y"},
            "IBI_DATABASE_URI is 'postgresql://u@h:x/y'",
        ),
        (
            ("mint",),
            {"IBI_MINT_HOST": "localhost", "IBI_ARCHIVE_IP": "127.0.0.1"},
            "IBI_MINT_HOST is 'localhost'; it should be",
        ),
    ],
)
def test_a_wrong_setting_stops_a_command_with_one_line(
    tmp_path: Path, command: tuple[str, ...], config: dict[str, str], line: str
) -> None:
    def create_app() -> Flask:
        app = Flask("wrong", instance_path=str(tmp_path))
        app.config.from_mapping({"SECRET_KEY": "s", **config})
        IBIArchive(app)
        return app

    error = run_command(create_app, *command).error
    assert line in error
    assert SECRET not in error


def test_a_wrong_setting_stops_a_process_with_one_line(tmp_path: Path) -> None:
    done = process(tmp_path, "ibi", "init", FLASK_IBI_REGISTRATION_KEY=SECRET)
    assert done.error.startswith("IBI_REGISTRATION_KEY is '(hidden)'; it should be")
    assert SECRET not in done.err


# --- settings for minting ------------------------------------------------------------------------


@for_each(
    ("address", "host"),
    [
        ("localhost:5000", "localhost"),
        ("mtc-m18.sid.inpe.br", "mtc-m18.sid.inpe.br"),
        ("mtc-m18.sid.inpe.br:8080", "mtc-m18.sid.inpe.br"),
        ("150.163.34.243:80", "150.163.34.243"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("[2001:db8::1]:8080", "2001:db8::1"),
    ],
)
def test_the_default_of_the_mint_host_is_the_host_of_the_address(address: str, host: str) -> None:
    assert extract_host(address) == host
    assert read(IBI_ARCHIVE_ADDRESS=address).mint_host == host


#: Host names that cannot be part of an identifier, and a part of the error message.
UNUSABLE = [
    ("localhost", "one word"),
    ("150.163.34.243", "is an IP address"),
    ("2001:db8::1", "is an IP address"),
    ("[2001:db8::1]", "ends"),
    ("a_b.inpe.br", "only letters, digits"),
    ("-a.inpe.br", "hyphen"),
    ("a.9r", "must begin with a letter"),
    ("a..br", "is empty"),
    ("1", "one word"),
    # no room for a date with a fraction
    ("a" * 200 + "." + "b" * 31 + ".br", "at most 255"),
]


@pytest.mark.rule("G6-11")
@for_each(("host", "reason"), UNUSABLE)
def test_an_unusable_mint_host_is_an_error_when_minting(host: str, reason: str) -> None:
    config = read(IBI_MINT_HOST=host, IBI_ARCHIVE_IP="150.163.34.243")
    with pytest.raises(ConfigError, match="a domain name of two words or more") as refusal:
        config.check_minting()
    assert refusal.value.key == "IBI_MINT_HOST"
    assert refusal.value.value == host
    assert "\n" not in str(refusal.value)
    if reason != "ends":
        assert reason in str(refusal.value)


def test_a_host_name_and_an_ip_address_are_sufficient_for_minting() -> None:
    config = read(IBI_ARCHIVE_ADDRESS="mtc-m18.sid.inpe.br:8080", IBI_ARCHIVE_IP="150.163.34.243")
    assert config.check_minting() == ("sid.inpe.br/mtc-m18.8080", "8JMKD3MGP8WD49")


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


@pytest.mark.parametrize(("config", "key"), NEEDS)
def test_init_with_a_service_ibi_needs_no_settings_for_minting(
    new_app: Callable[..., Flask], config: dict[str, Any], key: str, tmp_path: Path
) -> None:
    archive = archive_of(new_app(**config))
    _, created = archive.init()
    assert created
    file = tmp_path / "report.txt"
    file.write_text("report")
    before = written(archive)
    for attempt in (archive.mint, lambda: archive.deposit(ItemRecord(), [file])):
        with pytest.raises(ConfigError, match=f"^{key} ") as refusal:
            attempt()
        assert refusal.value.key == key
    assert written(archive) == before
    assert paths_in_store(archive) == []


def written(archive: Any) -> list[int]:
    with archive.database.reading() as connection:
        return [
            connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one()
            for table in ("ibi_item", "ibi_identifier", "ibi_prefix", "ibi_file")
        ]


def test_init_mints_an_ibi_of_the_service_from_host_ip_and_port(
    new_app: Callable[..., Flask],
) -> None:
    archive = archive_of(new_app(IBI_ARCHIVE_SERVICE_IBI=None, IBI_MINT_PORT=802))
    served, _ = archive.init()
    assert served.rep is not None
    assert served.ibip is not None
    assert served.rep.startswith("sid.inpe.br/mtc-m16c.802/")
    assert served.ibip.startswith("8JMKD3MGP8W34M/")


def test_an_archive_that_is_printed_shows_no_secret() -> None:
    config = read(SECRET_KEY=SECRET, IBI_DATABASE_URI=f"sqlite:////tmp/{SECRET}")
    database = open_database("sqlite://", 5)
    archive = Archive(config, database, ArchiveUrls(config.base_url))
    database.close()
    assert SECRET not in f"{config!r} {archive!r}"
