"""Items of an app with Kerko follow the rules of an Archive."""

from __future__ import annotations

from typing import Any

from deposits import ibi
from flask import Flask
from installed_hosts.kerko_site.library import make_app

from flask_ibi_archive.testing import CatalogueContract


class TestBibliography(CatalogueContract):
    """The contract for items that are deposited in an app with Kerko."""

    def create_app(self, settings: dict[str, Any]) -> Flask:
        ibi.clock = self.clock
        return make_app(settings, self.folder)
