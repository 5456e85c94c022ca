"""Requests to addresses that somebody else chose: refused hosts, passwords and proxies."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from support.archive_servers import Servers, http, says, servers
from support.far import Far, Reply
from support.loopback import LOOPBACK, raw
from support.vectors import load

from flask_ibi_archive.core.protocol.hosts import NO_INNER_HOSTS, InnerHosts, parse_inner_hosts
from flask_ibi_archive.errors import TransportError
from flask_ibi_archive.server.http.transport import HttpResponse, fetch, find_link_error

#: Internal addresses as hosts of URLs, in notations that a comparison of texts may miss.
INTERNAL = load("internal_addresses.json")
ONE, OTHER = "127.0.0.1", "127.0.0.2"
#: These tests allow one address of this machine; its other addresses are internal.
ONE_ALONE = parse_inner_hosts([ONE])
REFUSED = "has an internal IP address, which IBI_INNER_HOSTS does not allow"


def get(url: str, inner_hosts: InnerHosts | None) -> HttpResponse:
    return fetch(url, seconds=20, limit=100, inner_hosts=inner_hosts)


def is_refused(url: str, inner_hosts: InnerHosts) -> bool:
    try:
        get(url, inner_hosts)
    except TransportError as error:
        return str(error) == f"{url} {REFUSED}" and error.kind == "internal"
    return False


def check(url: str, inner_hosts: InnerHosts) -> str | None:
    """Return why a link does not work."""
    error = find_link_error(url, "x", inner_hosts)
    return error and error.reason


class Names:
    """Replaces ``socket.getaddrinfo`` for some names.

    :param addresses: for each name the results of its look-ups in order; the last result is
        repeated.
    """

    def __init__(self, addresses: Mapping[str, list[list[str]]]) -> None:
        self.addresses = dict(addresses)
        self.asked: list[str] = []
        self._system = socket.getaddrinfo

    def __call__(self, host: Any, port: Any, *rest: Any, **more: Any) -> Any:
        """Look a name up."""
        answers = self.addresses.get(host)
        if answers is None:
            return self._system(host, port, *rest, **more)
        self.asked.append(host)
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        return [one for ip in found for one in self._system(ip, port, type=socket.SOCK_STREAM)]


@pytest.fixture
def hosts() -> Iterator[Servers]:
    """Servers on loopback."""
    with servers() as found:
        yield found


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    """The results of look-ups of names, which each test sets."""
    found = Names({})
    monkeypatch.setattr(socket, "getaddrinfo", found)
    return found


# --- refused hosts -------------------------------------------------------------------------------


def test_every_notation_of_this_machine_is_refused(hosts: Servers) -> None:
    here = hosts.add(says(http("secret")))
    for host in INTERNAL["this machine"]:
        url = f"http://{host}:{here.port}/x"
        assert is_refused(url, NO_INNER_HOSTS), host
        assert is_refused(url.replace("http:", "https:"), NO_INNER_HOSTS), host
        assert check(url, NO_INNER_HOSTS) == REFUSED, host
        assert here.accepted == 0, host


def test_every_other_internal_address_is_refused() -> None:
    for host in INTERNAL["others"]:
        assert is_refused(f"http://{host}/latest/meta-data/", NO_INNER_HOSTS), host
        assert check(f"http://{host}/", NO_INNER_HOSTS) == REFUSED, host


def test_a_second_look_up_with_another_address_has_no_effect(hosts: Servers, names: Names) -> None:
    outside = hosts.add(says(http("outside")))
    inside = hosts.add(says(http("inside")), place=(OTHER, outside.port))
    names.addresses["evil.br"] = [[ONE], [OTHER]]
    url = f"http://evil.br:{outside.port}/x"
    assert get(url, ONE_ALONE).text == "outside"
    assert names.asked == ["evil.br"]
    assert is_refused(url, ONE_ALONE)
    assert inside.accepted == 0


def test_only_allowed_addresses_of_a_host_are_tried(hosts: Servers, names: Names) -> None:
    outside = hosts.add(says(http("outside")))
    inside = hosts.add(says(http("inside")), place=(OTHER, outside.port))
    names.addresses["both.br"] = [[OTHER, "::1", ONE]]
    assert get(f"http://both.br:{outside.port}/x", ONE_ALONE).text == "outside"
    # the first address that answers
    names.addresses["more.br"] = [["127.0.0.3", ONE]]
    assert get(f"http://more.br:{outside.port}/x", LOOPBACK).text == "outside"
    assert inside.accepted == 0


def test_a_redirect_to_an_internal_host_is_refused(names: Names, far: Far) -> None:
    names.addresses.update({"public.br": [[ONE]], "evil.br": [[OTHER]]})
    for number, host in enumerate([OTHER, "2130706434", "0x7f.2", "evil.br"]):
        far.replies[f"a{number}"] = Reply(302, {"Location": far.url("secret", host)})
        error = check(far.url(f"a{number}", "public.br"), ONE_ALONE)
        assert error == f"redirects to {far.url('secret', host)}, which {REFUSED}"
    assert {request.path for request in far.requests} == {"/a0", "/a1", "/a2", "/a3"}
    far.replies["b"] = Reply(302, {"Location": far.url("c", ONE)})
    far.replies["c"] = Reply()
    assert check(far.url("b", "public.br"), ONE_ALONE) is None


# --- passwords and proxies -----------------------------------------------------------------------


@pytest.fixture
def proxy(hosts: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a proxy in the environment; ~/.netrc has a password for every host."""
    server = hosts.add(says(http("confirmation yes", Via="the proxy")))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://{server.address}")
    for name in ("no_proxy", "NO_PROXY", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".netrc").write_text("default login user password secret\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    yield server.address
    assert not any("authorization" in head.lower() for head in server.heads)


def test_a_link_check_uses_no_password_and_no_proxy(proxy: str, far: Far) -> None:
    far.replies["a"] = Reply()
    assert check(far.url("a"), LOOPBACK) is None
    [request] = far.requests
    assert "Authorization" not in request.headers


def test_an_address_of_our_own_settings_uses_the_proxy_but_no_password_of_netrc(proxy: str) -> None:
    answer = get("http://resolver.example.org/x", None)
    assert (answer.text, answer.headers["via"]) == ("confirmation yes", "the proxy")


def test_a_password_in_a_url_of_our_own_settings_is_sent(hosts: Servers) -> None:
    resolver = hosts.add(says(http("status")))
    get(f"http://user:secret@{resolver.address}/x", None)
    assert "Authorization: Basic dXNlcjpzZWNyZXQ=" in resolver.heads[0]


# --- TLS -----------------------------------------------------------------------------------------


def test_tls_compares_the_name_of_the_host_with_the_certificate(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = Path(__file__).parents[2] / "vectors" / "name.br.pem"
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    heads: list[bytes] = []

    def answer(peer: socket.socket) -> None:
        with suppress(OSError), context.wrap_socket(peer, server_side=True) as secure:
            heads.append(secure.recv(65536))
            secure.sendall(http("confirmation yes"))

    for name in ("name.br", "other.br"):
        names.addresses[name] = [["127.0.0.3", ONE], [OTHER]]
    with raw(answer, answer, answer) as address:
        port = address.rpartition(":")[2]
        assert get(f"https://name.br:{port}/x", LOOPBACK).text == "confirmation yes"
        assert f"Host: name.br:{port}".encode() in heads[0]
        with pytest.raises(TransportError) as wrong_name:
            get(f"https://other.br:{port}/x", LOOPBACK)
        with pytest.raises(TransportError) as wrong_address:
            get(f"https://{ONE}:{port}/x", LOOPBACK)
    assert (wrong_name.value.kind, wrong_address.value.kind) == ("tls", "tls")
    assert not any(heads[1:])
