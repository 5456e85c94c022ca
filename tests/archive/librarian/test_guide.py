"""The view of the page docs/howto/librarian.rst shows the page to librarians only."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from flask import Flask, abort
from support.documentation import blocks

from flask_ibi_archive import IBIArchive

PAGE = "howto/librarian.rst"


def test_the_view_of_the_guide_shows_the_page_to_librarians_only(app: Flask) -> None:
    user = SimpleNamespace(is_librarian=False)

    def login_required(view: Callable[..., Any]) -> Callable[..., Any]:
        return view

    view = next(block.text for block in blocks(PAGE) if "admin_page" in block.text)
    names = {"app": app, "ibi": IBIArchive(), "abort": abort, "current_user": user}
    exec(view, {**names, "login_required": login_required})
    client = app.test_client()
    assert client.get("/admin/ibi").status_code == 403
    user.is_librarian = True
    assert "Care of the Archive" in client.get("/admin/ibi").text
    assert client.post("/admin/ibi").status_code == 200
