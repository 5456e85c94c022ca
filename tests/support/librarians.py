"""A librarian who uses the page of the extension."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from flask.testing import FlaskClient
from werkzeug.test import TestResponse


class Librarian:
    """Opens pages, and sends forms with all fields that a browser would send."""

    def __init__(self, client: FlaskClient) -> None:
        self.client = client

    def get(self, query: str = "", status: int = 200) -> str:
        """Return the text of the page without HTML escapes."""
        response = self.client.get(f"/care{query}")
        assert response.status_code == status, response.text
        return unescape(response.text)

    def send(self, query: str, **fields: Any) -> TestResponse:
        """Open a form, change some fields, and send it."""
        return self.client.post(f"/care{query}", data={**read_fields(self.get(query)), **fields})


def read_fields(html: str) -> dict[str, Any]:
    """Return the values of the fields of a form, of which several may have the same name."""
    form = html[html.index("<form") :]
    found: dict[str, Any] = {}
    # a browser sends no box that is not ticked
    inputs = re.findall(r'<input(?![^>]*checkbox)[^>]* name="([^"]+)"[^>]* value="([^"]*)"', form)
    for name, value in inputs:
        found.setdefault(name, []).append(value)
    for name, value in re.findall(
        r'<textarea[^>]* name="([^"]+)"[^>]*>\n(.*?)</textarea>', form, re.S
    ):
        found.setdefault(name, []).append(value)
    return found
