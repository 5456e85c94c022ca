"""A document registry in an app or on a server on loopback: its calls, and validated answers."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flask import Flask
from lxml import etree

from flask_ibi_archive.core.protocol.pairs import format_query_string
from flask_ibi_archive.resolver.registry_2008.operations import DocumentRegistry
from support.registries import CHEAP
from support.resolving import app_over, resolver_of
from support.web import Answer, environ_of, run

PATH = "/ibi/registry"
FORM = "application/x-www-form-urlencoded"
MINT_HOST = "registry.example.org"
PASSWORD = "geheim & 日本=?"
Pairs = Sequence[tuple[str, str]]

#: The actors and the document of [P] 4.
HERMES, ICONET = "dpi.inpe.br/banon/2001/01.11.16.21", "iconet.com.br/banon/2006/11.26.21.31"
DOCUMENT = "dpi.inpe.br/banon/2008/07.17.17.22"
URL = f"http://hermes.dpi.inpe.br:1905/col/{DOCUMENT}/doc/a.pdf"
COPY_URL = "http://www.iconet.com.br/banon/copy.pdf"
DATE = "2008-07-17T17:22:06-03:00"


@contextmanager
def registry_app(folder: Path, app: Flask | None = None, **config: Any) -> Iterator[Flask]:
    """Yield an app with a document registry, whose DNS knows each host as 127.0.0.1."""
    settings = {"IBI_RESOLVER_REGISTRY": True, "IBI_MINT_HOST": MINT_HOST, **config}
    with app_over([], folder, app, **settings) as found:
        registry = registry_of(found)
        registry.look_up = lambda host: ("127.0.0.1",)
        registry.cost = CHEAP
        yield found


def registry_of(app: Flask) -> DocumentRegistry:
    """Return the document registry of an app."""
    found = resolver_of(app).document_registry
    assert found is not None
    return found


def call(
    app: Flask,
    body: Pairs | bytes = b"",
    query: Pairs | bytes = b"",
    *,
    method: str = "POST",
    headers: Mapping[str, str] | None = None,
    remote: str | None = "150.163.2.175",
    **environ: Any,
) -> Answer:
    """Send a call to the registry.

    :param environ: other values of the WSGI environment.
    """
    sent, asked = (
        part if isinstance(part, bytes) else format_query_string(part).encode()
        for part in (body, query)
    )
    target = PATH.encode() + (b"?" + asked if asked else b"")
    found = environ_of(target, method, headers or {}, remote)
    found.update({"wsgi.input": io.BytesIO(sent), "CONTENT_LENGTH": str(len(sent))})
    found["CONTENT_TYPE"] = FORM
    return run(app, {**found, **environ})


def verb_call(name: str, actor: str = "", password: str = PASSWORD, **more: str) -> Pairs:
    """Return the arguments of a verb."""
    credentials = {"actorID": actor, "password": password} if actor else {}
    return list({"verb": name, **credentials, **more}.items())


def actor_call(actor_id: str = "", **more: str) -> Pairs:
    """Return the arguments of RegisterActor."""
    facts = {
        "computerName": "hermes",
        "ip": "127.0.0.1",
        "domainName": "dpi.inpe.br",
        "port": "1905",
        "eMailAddress": "banon@dpi.inpe.br",
        "password": PASSWORD,
        **({"actorID": actor_id} if actor_id else {}),
        **more,
    }
    return [("verb", "RegisterActor"), *facts.items()]


def document_call(actor: str, document_id: str = "", url: str = URL, **more: str) -> Pairs:
    """Return the arguments of RegisterDocument."""
    chosen = {"documentID": document_id} if document_id else {}
    location = {"documentURL": url, "documentLastUpdate": DATE}
    return verb_call("RegisterDocument", actor, **{**chosen, **location, **more})


def read_xml(answer: Answer) -> etree._Element:
    """Return the XML of an answer."""
    assert answer.headers["Content-Type"] == "text/xml; charset=utf-8"
    return etree.fromstring(answer.body)
