"""Requests of harvesters, whose responses are validated with the XML schemas."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from flask import Flask
from lxml import etree

from support.metadata import load_schema

SCHEMA = load_schema("responses")
OAI = "{http://www.openarchives.org/OAI/2.0/}"
MORNING = datetime(2026, 3, 1, 8, tzinfo=timezone.utc)


def parse(body: bytes) -> Any:
    """Return the root element of a response that fits the schemas."""
    root = etree.fromstring(body)
    SCHEMA.assertValid(root)
    return root


def harvest(app: Flask, method: str = "GET", **arguments: str) -> Any:
    """Return the root element of the response to a request; ``from_`` is the argument from."""
    words = {name.rstrip("_"): value for name, value in arguments.items()}
    client = app.test_client()
    if method == "POST":
        response = client.post("/ibi/oai", data=words)
    else:
        response = client.get("/ibi/oai", query_string=words)
    assert response.status_code == 200, response.text
    assert response.content_type == "text/xml; charset=utf-8"
    return parse(response.data)


def find_errors(root: Any) -> list[str]:
    """Return the codes of the errors in a response."""
    return [one.get("code") for one in root.iter(f"{OAI}error")]


def texts(root: Any, name: str) -> list[str]:
    """Return the texts of all elements with a name."""
    return [one.text or "" for one in root.iter(f"{OAI}{name}")]


def headers(root: Any) -> dict[str, bool]:
    """Return for the IBI of each header whether the item is deleted."""
    return {
        one.findtext(f"{OAI}identifier").split(":", 2)[2]: one.get("status") == "deleted"
        for one in root.iter(f"{OAI}header")
    }


def harvest_all(app: Flask, verb: str = "ListIdentifiers", **arguments: str) -> dict[str, bool]:
    """Return the headers of a complete list with all its parts."""
    root = harvest(app, verb=verb, **{"metadataPrefix": "oai_dc", **arguments})
    found = headers(root)
    while token := "".join(texts(root, "resumptionToken")):
        root = harvest(app, verb=verb, resumptionToken=token)
        found.update(headers(root))
    return found
