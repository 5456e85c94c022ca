"""An app whose page of the librarian is at /care."""

from __future__ import annotations

import pytest
from flask import Flask
from support.librarians import Librarian

from flask_ibi_archive.archive.librarian.views import admin_page


@pytest.fixture
def librarian(app: Flask) -> Librarian:
    app.add_url_rule("/care", "care", admin_page, methods=["GET", "POST"])
    return Librarian(app.test_client())
