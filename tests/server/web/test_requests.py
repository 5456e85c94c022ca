"""The path, the URL, the host and the user of a request, as the web server passes them on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from support.archives import SERVICE
from support.cases import for_each
from support.web import INSIDE, OUTSIDE
from werkzeug.test import EnvironBuilder

from flask_ibi_archive import IBIArchive
from flask_ibi_archive.resolver import IBIResolver
from flask_ibi_archive.server.web.requests import (
    MAX_PROXIES,
    find_address,
    find_root,
    forwarded_addresses,
    is_message,
    is_request_url,
    request_addresses,
    request_host,
    request_path,
    request_root,
    request_target,
    request_url,
    user_address,
)

#: A byte that is not UTF-8, as werkzeug's server passes it: the bytes of a replacement character.
LOST = "\ufffd".encode().decode("latin-1")


@contextmanager
def requested(root: str = "/", **environ: Any) -> Iterator[None]:
    """Answer a request with a WSGI environment; None removes a value."""
    app = Flask("app")
    app.config["APPLICATION_ROOT"] = root
    whole = {**EnvironBuilder("/").get_environ(), **environ}
    given = {name: value for name, value in whole.items() if value is not None}
    with app.request_context(given):
        yield


def add_archive(app: Flask, folder: Path) -> None:
    app.config.from_mapping(
        IBI_DATABASE_URI=f"sqlite:///{folder / 'none.sqlite'}",
        IBI_ARCHIVE_ADDRESS="a.example",
        IBI_ARCHIVE_SERVICE_IBI=SERVICE,
    )
    IBIArchive(app)


def add_resolver(app: Flask, folder: Path) -> None:
    app.config["IBI_RESOLVER_DATABASE_URI"] = f"sqlite:///{folder / 'none.sqlite'}"
    IBIResolver(app)


# --- the path


@for_each(
    ("environ", "path"),
    [
        ({"PATH_INFO": "/a/b"}, b"/a/b"),
        ({"PATH_INFO": None}, b""),
        # WSGI passes bytes as Latin-1
        ({"PATH_INFO": "/\xc3\xa9"}, "/é".encode()),
        ({"PATH_INFO": "/\xe9"}, b"/\xe9"),
        # the original path is needed only if bytes may be lost
        ({"PATH_INFO": "/a", "REQUEST_URI": "/b"}, b"/a"),
        ({"PATH_INFO": f"/{LOST}", "REQUEST_URI": "/%E9"}, b"/\xe9"),
        ({"PATH_INFO": f"/{LOST}", "REQUEST_URI": None, "RAW_URI": "/%E9"}, b"/\xe9"),
        ({"PATH_INFO": f"/{LOST}", "REQUEST_URI": "/%E9?a=?&b"}, b"/\xe9"),
        ({"PATH_INFO": f"/{LOST}", "REQUEST_URI": "/é/%E9", "SCRIPT_NAME": "/\xc3\xa9"}, b"/\xe9"),
        # a character that the client itself has sent
        ({"PATH_INFO": f"/{LOST}", "REQUEST_URI": "/%EF%BF%BD"}, "/\ufffd".encode()),
        # an original path that a proxy or middleware has changed is another path
        ({"PATH_INFO": f"/{LOST}", "REQUEST_URI": "/b/%E9"}, "/\ufffd".encode()),
        ({"PATH_INFO": f"/{LOST}", "REQUEST_URI": None}, "/\ufffd".encode()),
    ],
)  # fmt: skip
def test_the_path_has_the_bytes_that_the_client_sent(environ: dict[str, Any], path: bytes) -> None:
    with requested(**environ):
        assert request_path() == path


@for_each(
    ("path", "query", "target"),
    [
        ("", "", "/"),
        ("/", "", "/"),
        ("/a b", "", "/a%20b"),
        ("/\xc3\xa9\xe9%", "", "/%C3%A9%E9%25"),
        ("/:@!$&'()*+,;=-._~/", "", "/:@!$&'()*+,;=-._~/"),
        ("/?#[]", "", "/%3F%23%5B%5D"),
        ("/a", "b=c", "/a?b=c"),
        ("", "b", "/?b"),
        # the query is still encoded
        ("/a", "b=%C3%A9&c=d?/:@!$'()*+,;", "/a?b=%C3%A9&c=d?/:@!$'()*+,;"),
        ("/a", 'b="\xe9 #', "/a?b=%22%E9%20%23"),
    ],
)
def test_the_target_is_encoded_again_in_ascii(path: str, query: str, target: str) -> None:
    with requested(PATH_INFO=path, QUERY_STRING=query):
        assert request_target() == target


@for_each(
    ("configured", "script_name", "root"),
    [
        ("/", "", ""),
        ("/", "/a/", "/a"),
        ("/", "/r\xc3\xa9po d", "/r%C3%A9po%20d"),
        ("/b", "/a", "/b"),
    ],
)
def test_the_root_is_the_configured_path_or_the_one_of_the_request(
    configured: str, script_name: str, root: str
) -> None:
    with requested(configured, SCRIPT_NAME=script_name):
        assert request_root() == root


def test_without_a_request_the_root_is_the_configured_path() -> None:
    assert (find_root(""), find_root("/b")) == ("", "/b")


# --- the host and the URL


@for_each(
    ("environ", "host"),
    [
        ({"HTTP_HOST": "urlib.net"}, "urlib.net:80"),
        ({"HTTP_HOST": "urlib.net", "wsgi.url_scheme": "https"}, "urlib.net:443"),
        ({"HTTP_HOST": "urlib.net:8080"}, "urlib.net:8080"),
        ({"HTTP_HOST": "[2001:db8::1]:99"}, "[2001:db8::1]:99"),
        ({"HTTP_HOST": "a b", "SERVER_NAME": "a.example", "SERVER_PORT": "81"}, "a.example:81"),
        ({"HTTP_HOST": "a b", "SERVER_NAME": None, "SERVER_PORT": "81"}, "localhost:81"),
    ],
)
def test_the_host_has_a_port(environ: dict[str, Any], host: str) -> None:
    with requested(**environ):
        assert request_host() == host


def test_the_url_has_the_scheme_the_port_the_root_and_the_query() -> None:
    host = {"HTTP_HOST": "a.example", "wsgi.url_scheme": "https"}
    with requested(**host, SCRIPT_NAME="/b", PATH_INFO="/c", QUERY_STRING="d"):
        assert request_url() == "https://a.example:443/b/c?d"


@for_each(
    ("url", "is_own"),
    [
        ("http://a.example/b/c", True),
        ("http://A.example:80/b/%63?e", True),
        ("http://b.example:81/b/c", True),
        ("http://a.example/b", False),
        ("http://b.example/b/c", False),
    ],
)
def test_a_url_on_any_name_of_the_host_is_the_url_of_the_request(url: str, is_own: bool) -> None:
    with requested(HTTP_HOST="a.example", SCRIPT_NAME="/b", PATH_INFO="/c", QUERY_STRING="d"):
        assert is_request_url(url, "b.example:81") is is_own


@for_each(
    ("query", "expected"),
    [
        ("servicesubject=urlRequest", True),
        ("a=b&servicesubject=urlRequest", True),
        ("servicesubject", False),
        ("SERVICESUBJECT=urlRequest", False),
        ("", False),
    ],
)
def test_a_request_that_names_a_subject_is_a_message(query: str, expected: bool) -> None:
    with requested(QUERY_STRING=query):
        assert is_message() is expected


# --- the addresses of the user and the proxies

PROXY, FAR_PROXY = "10.0.0.1", "10.9.0.7"


@for_each(
    ("text", "address"),
    [
        (None, None),
        ("", None),
        ("150.163.2.175:4711", "150.163.2.175"),
        ("150.163.2.256", None),
        ("0150.163.2.1", None),
        ("2001:DB8::1", "2001:db8::1"),
        ("[2001:db8::1]:443", "2001:db8::1"),
        ("2001:db8::1:443", "2001:db8::1:443"),
        ("::ffff:150.163.2.175", "150.163.2.175"),
        ("fe80::1%eth0", "fe80::1"),
        ("unix:/run/x.sock", None),
        ("1" * 10000, None),
    ],
)
def test_find_address_returns_an_address_or_none(text: str | None, address: str | None) -> None:
    found = find_address(text)
    assert (None if found is None else str(found)) == address


TRUSTED = ["10.0.0.0/8", "2001:db8:ffff::/48", "127.0.0.1/32"]


@pytest.mark.rule("R62-07")
@for_each(
    ("peer", "forwarded", "addresses"),
    [
        (None, [INSIDE], ()),
        (OUTSIDE, [], (OUTSIDE,)),
        # the client is not a trusted proxy
        (OUTSIDE, [INSIDE], (OUTSIDE,)),
        (PROXY, [], (PROXY,)),
        (PROXY, [OUTSIDE], (OUTSIDE, PROXY)),
        # an untrusted client may have written the addresses to the left of its own
        (PROXY, [f"{INSIDE}, {OUTSIDE}"], (OUTSIDE, PROXY)),
        (PROXY, [f"{INSIDE},{OUTSIDE} , {FAR_PROXY}"], (OUTSIDE, FAR_PROXY, PROXY)),
        (PROXY, [INSIDE, OUTSIDE, FAR_PROXY], (OUTSIDE, FAR_PROXY, PROXY)),
        # entries of an untrusted client need not be valid
        (PROXY, [f"unknown, {OUTSIDE}"], (OUTSIDE, PROXY)),
        (PROXY, [f"{OUTSIDE}:4711"], (OUTSIDE, PROXY)),
        (PROXY, ["2001:db8::1, 2001:db8:ffff::9"], ("2001:db8::1", "2001:db8:ffff::9", PROXY)),
        (f"::ffff:{PROXY}", [OUTSIDE], (OUTSIDE, PROXY)),
        # the user is unknown if a trusted proxy sends an invalid address
        (PROXY, [""], ()),
        (PROXY, [f"{OUTSIDE}, unknown"], ()),
        (PROXY, [f"{INSIDE}, unknown, {FAR_PROXY}"], ()),
    ],
)
def test_the_user_is_the_last_client_that_is_not_a_trusted_proxy(
    peer: str | None, forwarded: list[str], addresses: tuple[str, ...]
) -> None:
    networks = [ip_network(network) for network in TRUSTED]
    assert forwarded_addresses(peer, forwarded, networks) == addresses


def test_the_user_is_unknown_if_there_are_too_many_proxies() -> None:
    chain = ",".join(["10.0.0.1"] * MAX_PROXIES)
    assert len(forwarded_addresses(PROXY, [chain], [ip_network("10.0.0.0/8")])) == MAX_PROXIES + 1
    assert forwarded_addresses(PROXY, [f"{chain},{PROXY}"], [ip_network("10.0.0.0/8")]) == ()


@for_each(
    ("remote", "forwarded", "addresses"),
    [
        (None, [], ("0.0.0.0",)),
        (OUTSIDE, [INSIDE], (OUTSIDE,)),
        (PROXY, ["unknown"], ("0.0.0.0",)),
        (PROXY, [], (PROXY,)),
        (PROXY, [f"{INSIDE}, {OUTSIDE}", FAR_PROXY], (OUTSIDE, FAR_PROXY, PROXY)),
    ],
)
@for_each("extension", [add_archive, add_resolver])
def test_the_addresses_of_a_request_depend_on_the_trusted_proxies_of_the_app(
    tmp_path: Path,
    extension: Callable[[Flask, Path], None],
    remote: str | None,
    forwarded: list[str],
    addresses: tuple[str, ...],
) -> None:
    app = Flask("app", instance_path=str(tmp_path / "instance"))
    app.config.from_mapping(SECRET_KEY="a secret", IBI_TRUSTED_PROXIES=["10.0.0.0/8"])
    extension(app, tmp_path)
    headers = [("X-Forwarded-For", value) for value in forwarded]
    with app.test_request_context(headers=headers, environ_overrides={"REMOTE_ADDR": remote}):
        assert request_addresses() == addresses
        assert user_address() == addresses[0]
