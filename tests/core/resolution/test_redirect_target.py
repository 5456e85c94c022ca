"""The check of the URLs to which readers may be redirected."""

from __future__ import annotations

import pytest
from support.cases import for_each

from flask_ibi_archive.core.protocol.hosts import parse_inner_hosts
from flask_ibi_archive.core.resolution.answer import MAX_URL, find_usable_url, is_same_address

ADDRESS = "mtc-m16c.sid.inpe.br"
LONG = "http://a.br/" + "x" * (MAX_URL - 12)


def test_a_web_url_is_usable() -> None:
    for word, url in [
        ("http://a.br/col/x?y=1#z", "http://a.br/col/x?y=1#z"),
        ("HTTPS://A.br", "HTTPS://A.br"),
        ("http://a.br:8080/", "http://a.br:8080/"),
        ("http://a.br:/", "http://a.br:/"),
        ("http://a.br/Relatório 1.pdf", "http://a.br/Relat%C3%B3rio%201.pdf"),
        ("http://a.br/Relat\udcf3rio%20{1}", "http://a.br/Relat%F3rio%20%7B1%7D"),
        ("http://150.163.34.243/x", "http://150.163.34.243/x"),
        ("http://[2001:4860:4860::8888]:80/", "http://[2001:4860:4860::8888]:80/"),
        ("http://a.br.:65535/", "http://a.br.:65535/"),
        ("http://a.br:1/", "http://a.br:1/"),
        ("http://[::ffff:150.163.34.243]/", "http://[::ffff:150.163.34.243]/"),
        ("http://xn--bcher-kva.example/", "http://xn--bcher-kva.example/"),
        (LONG, LONG),
    ]:
        assert find_usable_url((word,), ADDRESS) == url, word


@pytest.mark.rule("R62-11")
def test_other_urls_are_refused() -> None:
    for words in [
        (),
        ("",),
        ("http://a.br/", "http://b.br/"),
        ("javascript:alert(1)",),
        ("data:text/html,x",),
        ("ftp://a.br/",),
        ("file:///etc/passwd",),
        ("//a.br/",),
        ("/col/x",),
        ("http:a.br",),
        ("http://",),
        ("http:///x",),
        ("http://user@a.br/",),
        ("http://user:password@a.br/",),
        ("http://a.br\\@b.br/",),
        ("http://a.br:80@b.br/",),
        ("http://a.br:123456/",),
        ("http://a.br:65536/",),
        ("http://a.br:0/",),
        ("http://a..br/",),
        ("http://.br/",),
        ("http://./",),
        (f"http://{'a' * 64}.br/",),
        (f"http://{'a.' * 127}br/",),
        ("http://[127.0.0.1]/",),
        ("http://[fe80::1%25eth0]/",),
        ("http://a.br:port/",),
        ("http://bücher.example/",),
        ("http://%31%32%37.0.0.1/",),
        ("http://a.br/\r\nSet-Cookie:x=1",),
        ("http://a.br/\0",),
        ("http://a.br/\x7f",),
        (" http://a.br/",),
        (LONG + "x",),
        ("http://a.br/" + "ã" * 3000,),
        ("http://[::1/",),
        ("http://[zz]/",),
    ]:
        assert find_usable_url(words, ADDRESS) is None, words


@for_each(
    ("other", "is_same"),
    [
        ("http://a.br/x/y", True),
        ("https://A.br:443/x/y", True),
        ("http://a.br:80/x%2Fy?z", True),
        ("http://a.br:81/x/y", False),
        ("http://a.br/x/Y", False),
        ("http://b.br/x/y", False),
        ("a.br/x/y", False),
    ],
)
def test_different_spellings_of_an_address_are_the_same(other: str, is_same: bool) -> None:
    assert is_same_address("http://a.br/x/y", other) is is_same


INNER = [
    "localhost",
    "LOCALHOST.",
    "app.localhost",
    "printer.local",
    "wiki.internal",
    "intranet",
    "127.0.0.1",
    "127.1",
    "2130706433",
    "0x7f.0.0.1",
    "0x7f000001",
    "0.0.0.0",
    "10.0.0.1",
    "172.16.44.200",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "255.255.255.255",
    "224.0.0.1",
    "256.1.1.1",
    "[::1]",
    "[::]",
    "[fe80::1]",
    "[fd00::1]",
    "[ff02::1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:224.0.0.1]",
    "[2002:e000:1::]",
    "[2002:7f00:1::]",
    "[fec0::1]",
    "[64:ff9b::a00:1]",
    "[64:ff9b:1::a00:1]",
    "[::127.0.0.1]",
    "[::ffff:0:10.0.0.1]",
    "router.home.arpa",
    "localhost.localdomain",
    "x.private",
    "x.test",
]


def test_an_internal_host_is_only_allowed_at_the_address_of_its_archive() -> None:
    for host in INNER:
        assert find_usable_url((f"http://{host}/x",), ADDRESS) is None, host
        assert find_usable_url((f"http://{host}:8000/x",), f"{host}:8001") is None, host
        assert find_usable_url((f"http://{host}:8000/x",), "other.localhost:8000") is None, host
        assert (
            find_usable_url((f"http://{host}:8000/x",), f"{host}:8000") == f"http://{host}:8000/x"
        ), host
        assert find_usable_url((f"https://{host}/x",), host) == f"https://{host}/x", host
        assert find_usable_url((f"http://{host}:80/x",), host) == f"http://{host}:80/x", host


@for_each(
    "host", ["files.corp", "FILES.corp.", "a.b.intranet", "10.1.2.3", "192.168.0.9", "[fd00::1]"]
)
def test_a_configured_internal_host_is_allowed(host: str) -> None:
    named = parse_inner_hosts(
        ["Files.Corp", ".intranet", "10.0.0.0/8", "192.168.0.9", "[fd00::]", "fd00::/8"]
    )
    url = f"http://{host}/x"
    assert find_usable_url((url,), ADDRESS, named) == url


def test_other_internal_hosts_are_not_allowed() -> None:
    for host in [
        *("a.files.corp", "intranet", "myintranet", "11.0.0.1.local", "127.0.0.1", "192.168.0.8"),
        *("167772161", "0xa.0.0.1", "[fe80::1]"),
    ]:
        named = parse_inner_hosts(
            ["files.corp", ".intranet", "10.0.0.0/8", "192.168.0.9", "fd00::/8"]
        )
        assert find_usable_url((f"http://{host}/x",), ADDRESS, named) is None, host


@for_each("item", ["", ".", "a..b", "a b", "a/b", "10.0.0.1/8", "1.2.3", "a:80", "*"])
def test_the_error_names_a_text_that_is_not_a_host(item: str) -> None:
    with pytest.raises(
        ValueError, match="is not a host name, an IP address or a network"
    ) as refusal:
        parse_inner_hosts(["files.corp", item])
    assert repr(item) in str(refusal.value)
