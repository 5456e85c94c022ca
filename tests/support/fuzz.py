"""Unusual bytes, headers and addresses for random requests."""

from __future__ import annotations

import random

SCRAPS = [b"%", b"%%", b"%f", b"%zz", b"%00", b"%0d%0a", b"%ff", b"%C0%AF", b"%ED%A0%80", b"\xff",
          b"\x80",
          "é".encode(), "日😀".encode(), b"..", b"../../etc/passwd", b"%2e%2e%2f", b"..%5c", b"//",
          b"/", b"\\",
          b"%2F", b"\t", b"{", b"}", b"%7B%7D",
          b"'\"<>", b"&", b"=", b"+", b"%2B", b";", b"#", b"?", b"\x7f",
          b"0" * 300, b"A" * 3000, b"%E2%80%A8", b"%252e", b"None", b"null", b"*",
          b"\x01"]  # fmt: skip
#: Values of a Host header that are not a host with an optional port.
MALFORMED_HOSTS = ["x y", "[::1", "a:b:c", "\xe9.br", "..", "h" * 300, "evil.example/../x",
                   "x:99999", "@",
                   "[1:2]", "[1:2]:80", "[::1]x", "[]", "[::1%25eth0]", "a..b", ":80", "a,b",
                   "http://a.br/",
                   "u:p@a.br", "a.br:-1", "a.br:8e1", "<script>", "%00", "\x01",
                   "[" * 5000]  # fmt: skip
HEADERS: dict[str, list[str]] = {
    "Range": ["bytes=0-", "bytes=-1", "bytes=5-2", "bytes=0-1,3-4", "lines=1-2", "bytes=",
    "bytes=99999999999-",
              "bytes=--1", "\xff", "bytes=0-" + "9" * 300, "bytes=" + "0-1," * 50],
    "If-Range": ['"x"', "W/", "Sat, 99 Foo", "\xe9", ""],
    "If-None-Match": ["*", '"x"', "W/\"", ",,,", "\xff\xfe", '"' * 50],
    "If-Match": ["*", '"x"', "\xff"],
    "If-Modified-Since": ["Thu, 01 Jan 1970 00:00:00 GMT", "Sat, 01 Jan 99999 00:00:00 GMT", "x",
    "\xe9"],
    "If-Unmodified-Since": ["Thu, 01 Jan 1970 00:00:00 GMT", "0"],
    "X-Forwarded-For": ["1.2.3.4", "x, y", "1.2.3.4:80, [::1]:9", "unknown", "\xff", "," * 100,
    "::1%eth0",
                        "150.163.2.175, 127.0.0.1", "1" * 1000],
    "Accept-Language": ["pt-BR", "*", "en;q=x", "zz;q=9e9", "\xff", ",;=", "pt;q=-1,en",
    "x" * 2000],
    "Host": ["", "a.br", "a_b", "a.br.", "[::1]:5000", "A.BR:80", "a.br:", "1.2.3.4:0",
    *MALFORMED_HOSTS],
    "Accept": ["*/*", "\xff", "text/html;q=x"],
    "Cookie": ["session=x", "\xff=;", "=" * 100],
    "Content-Length": ["-1", "x", "10"],
    "X-HTTP-Method-Override": ["DELETE"],
}  # fmt: skip
REMOTES = ["150.163.2.175", "203.0.113.9", "::1", "::ffff:150.163.2.175", "fe80::1%eth0", "",
           "unix:", "\xff",
           None]  # fmt: skip


def scrap(chance: random.Random) -> bytes:
    """Return bytes that are unusual in a URL."""
    kind = chance.random()
    if kind < 0.7:
        return chance.choice(SCRAPS)
    if kind < 0.9:
        return chance.randbytes(chance.randrange(1, 12))
    return b"".join(b"%%%02X" % byte for byte in chance.randbytes(chance.randrange(1, 12)))


def spoil(chance: random.Random, text: bytes) -> bytes:
    """Return a text with unusual bytes at a random position, in three of four cases unchanged."""
    if chance.random() < 0.75:
        return text
    place = chance.randrange(len(text) + 1)
    return text[:place] + scrap(chance) + text[place + chance.randrange(3) :]
