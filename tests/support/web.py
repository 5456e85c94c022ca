"""Sends requests with any bytes to a WSGI app, and defines the shelf: items of every kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote, unquote_to_bytes

from flask import Blueprint, Flask, Response
from werkzeug.datastructures import Headers
from werkzeug.test import create_environ, run_wsgi_app

from flask_ibi_archive.core.protocol.pairs import pairs_as_dict, parse_pairs
from flask_ibi_archive.resolver.pages import show_at_root
from flask_ibi_archive.server.config import PAGE_POLICY
from flask_ibi_archive.server.web.hooks import (
    RESOLVE,
    add_static_files,
    answer_first,
    answer_unrouted,
    is_like_persistent_url,
    prepare_app,
)
from support.archives import SERVICE
from support.vectors import load

#: The path of the service, whose IBI is a repository name without an IBIp.
SERVICE_PATH = f"/{SERVICE}"
INSIDE, OUTSIDE = "150.163.2.175", "203.0.113.9"
NETWORK = "150.163.0.0/16"


@dataclass
class Answer:
    """The answer of a WSGI app."""

    status: int
    headers: Headers
    body: bytes

    @property
    def text(self) -> str:
        """The body of a page."""
        return self.body.decode("utf-8")

    @property
    def pairs(self) -> dict[str, tuple[str, ...]]:
        """The pairs of an answer that is a list of pairs."""
        return pairs_as_dict(parse_pairs(self.body))

    @property
    def alert(self) -> str:
        """The text of an answer that consists of one alert."""
        pairs = parse_pairs(self.body)
        assert [pair.name for pair in pairs] == ["alert"]
        return pairs[0].text


def environ_of(
    target: str | bytes, method: str, headers: Mapping[str, str], remote: str | None
) -> dict[str, Any]:
    """Return the WSGI environment of a request, which may contain any bytes."""
    raw = target.encode() if isinstance(target, str) else target
    path, _, query = raw.partition(b"?")
    environ = create_environ("/", "http://mtc-m16c.sid.inpe.br", method=method)
    environ["PATH_INFO"] = unquote_to_bytes(path).decode("latin-1")
    environ["QUERY_STRING"] = query.decode("latin-1")
    environ["SERVER_NAME"] = "127.0.0.1"
    if remote is not None:
        environ["REMOTE_ADDR"] = remote
    for name, value in headers.items():
        environ["HTTP_" + name.upper().replace("-", "_")] = value
    return environ


def run(app: Flask, environ: dict[str, Any]) -> Answer:
    """Return the answer of an app to an environment; fail if the headers are not valid in HTTP."""
    parts, status, headers = run_wsgi_app(app.wsgi_app, environ, buffered=True)
    for name, value in headers:
        assert name.isascii()
        value.encode("latin-1")
        assert not set(value) & {"\r", "\n", "\0"}
    return Answer(int(status.split()[0]), headers, b"".join(parts))


def ask(
    app: Flask,
    target: str | bytes,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    remote: str | None = INSIDE,
) -> Answer:
    """Send a request to an app, with the target of a request line (``/path?query``)."""
    return run(app, environ_of(target, method, headers or {}, remote))


def follow(app: Flask, url: str, **options: Any) -> Answer:
    """Send a request for a URL or an absolute path of the app itself."""
    path = url.removeprefix("http://mtc-m16c.sid.inpe.br")
    assert path.startswith("/"), url
    return ask(app, path, **options)


def query_of(*pairs: tuple[str, str]) -> str:
    """Return a query string with pairs in their order."""
    return "&".join(f"{quote(name)}={quote(value)}" for name, value in pairs)


def ask_service(app: Flask, *pairs: tuple[str, str], **options: Any) -> Answer:
    """Send pairs to the service."""
    return ask(app, f"{SERVICE_PATH}?{query_of(*pairs)}", **options)


def ask_urls(
    app: Flask, ibi: str, verbs: str = "", filepath: str = "", user: str = INSIDE, **options: Any
) -> dict[str, tuple[str, ...]]:
    """Return the URL list of an item; the options are those of :func:`ask`."""
    answer = ask_service(
        app,
        ("servicesubject", "urlRequest"),
        ("clientinformation.ipaddress", user),
        ("parsedibiurl.ibi", ibi),
        ("parsedibiurl.verblist", verbs),
        ("parsedibiurl.filepath", filepath),
        **options,
    )
    assert answer.status == 200, answer.body
    return answer.pairs


def rep(number: int) -> str:
    """Return the repository name of an item on the shelf."""
    return f"sid.inpe.br/mtc-m18@80/2009/07.21.13.{number:02d}"


REPORT, GONE, OLD, NEW, CLOSED, HIDDEN, SERVED_ELSEWHERE = (rep(number) for number in range(1, 8))
FAR_METADATA, URL_METADATA, WITH_METADATA, METADATA = (rep(number) for number in range(8, 12))
WITH_CLOSED_METADATA, CLOSED_METADATA, UNLISTED, EMPTY, TRAP = (rep(n) for n in range(12, 17))
PORTUGUESE, CLOSED_URL, HIDDEN_BARE, PLAIN_CLOSED = (rep(number) for number in range(17, 21))
ONLY_IBIP = "8JMKD3MGP8W/35MME4F"
REPORT_IBIP, REPORT_ALIAS = "8JMKD3MGP8W/35MME4E", "83LX3pFwXQZeBBx/hwiTk"
FAR = "sid.inpe.br/mtc-m99@80/2009/07.21.13.23"
NOBODY = "sid.inpe.br/mtc-m18@80/2001/01.01.00.00"
HOSTILE = "<script>alert('x')</script> & \"quotes\" ]]>\u2028 😀"
LATIN_1_URL = "http://mtc-m16d.sid.inpe.br/other/doc/Relat%f3rio%20Final.pdf"

CONTENTS = {
    "report.pdf": b"%PDF-1.4 " + bytes(range(256)) * 8,
    "table.csv": "nome;área\r\nSão José;3\r\n".encode(),
    "old.txt": "Relatório".encode("latin-1"),
    "new.txt": "Relatório 😀".encode(),
    "page.html": b"<!doctype html><title>p</title><script>document.cookie</script>",
    "image.svg": b"<svg xmlns='http://www.w3.org/2000/svg'/>",
    "picture.png": b"\x89PNG\r\n\x1a\n" + b"\0" * 20,
    "data.tar.gz": b"\x1f\x8b" + b"\1" * 20,
    "README": b"read me",
    "odd.xyzzy": b"odd",
    "empty.txt": b"",
}


def source(folder: Path, name: str) -> str:
    """Write one of :data:`CONTENTS` to a folder, and return the path of the file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(CONTENTS[name])
    return str(path)


def shelf(folder: Path, name: str = "pages/shelf.json") -> list[dict[str, Any]]:
    """Return the records of the shelf, an item of each kind, and write their files to a folder."""
    records: list[dict[str, Any]] = load(name)
    for record in records:
        for file in record.get("files", ()):
            if "source" in file:
                file["source"] = source(folder, file["source"])
    return records


def resolver_app(answer: Callable[..., Response | None]) -> Flask:
    """Return an app without an Archive, in which a function answers persistent URLs."""
    app = Flask("resolver")
    app.config.from_mapping(TESTING=True, PROPAGATE_EXCEPTIONS=True)
    add_resolver(app, answer)
    return app


def add_resolver(app: Flask, answer: Callable[..., Response | None]) -> None:
    """Add a function in place of a resolver to an app."""
    config = SimpleNamespace(
        trusted_proxies=(),
        archive_name=None,
        base_template=None,
        content_security_policy=PAGE_POLICY,
    )
    app.extensions["ibi_resolver"] = SimpleNamespace(resolver=SimpleNamespace(config=config))
    blueprint = Blueprint(
        "ibi_resolver", "flask_ibi_archive.server.web", template_folder="templates"
    )
    blueprint.record_once(prepare_app)
    add_static_files(blueprint)
    blueprint.before_app_request(show_at_root)
    hook = partial(answer_unrouted, answer, is_like_persistent_url)
    blueprint.record_once(lambda state: answer_first(state.app, hook))
    app.extensions[RESOLVE] = answer
    app.register_blueprint(blueprint)


def without_key(answer: bytes) -> bytes:
    """Return an answer without its URL key, which is different each time."""
    return re.sub(rb"urlkey [0-9]{10,}-[0-9]{10,}", b"urlkey", answer)
