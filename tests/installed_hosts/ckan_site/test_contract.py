"""The package in CKAN, embedded as docs/hosts.rst says."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from ckan import model
from ckan.cli import load_config
from ckan.config.middleware import make_app
from ckan.plugins.toolkit import get_action
from flask import Flask
from werkzeug.datastructures import FileStorage

from flask_ibi_archive import ItemRecord
from flask_ibi_archive.testing import CatalogueContract


def act(action: str, /, **values: Any) -> Any:
    """Run an action of CKAN, and return its result."""
    return get_action(action)({"ignore_auth": True}, values)


def add_dataset(**values: Any) -> model.Package:
    """Create a dataset as the API does, and return its row."""
    return model.Package.get(act("package_create", name=uuid.uuid4().hex, **values)["id"])


def identifiers(package: model.Package) -> dict[str, str]:
    return package.plugin_data["ibi"]


def find_dataset(ibi: str) -> str:
    """Return the ID of the dataset with an identifier."""
    datasets = model.Session.query(model.Package)
    return next(each.id for each in datasets if ibi in identifiers(each).values())


class TestContract(CatalogueContract):
    without = ("editions", "translations", "access", "embargo")

    @pytest.fixture(autouse=True)
    def _install(self, installation: Any) -> None:
        installation.embed("localhost", "sqlite://")
        self.ini = installation.ini

    def create_app(self, settings: dict[str, Any]) -> Flask:
        site = {"ckan.site_url": f"http://{settings['IBI_ARCHIVE_ADDRESS']}"}
        return make_app({**load_config(self.ini), **settings, **site})

    def prepare_app(self, app: Flask) -> None:
        model.repo.delete_all()

    def close_app(self, app: Flask) -> None:
        model.Session.remove()
        model.meta.engine.dispose()

    def add_item(self, record: ItemRecord) -> str:
        language = {"key": "language", "value": record["language"]}
        package = add_dataset(
            title=record["title"], author=record["creators"][0], extras=[language]
        )
        for path in record.get("files", ()):
            with path.open("rb") as stream:
                upload = FileStorage(stream, path.name)
                act("resource_create", package_id=package.id, name=path.name, upload=upload)
        return identifiers(package)["ibip"]

    def remove_item(self, ibi: str, reason: str) -> None:
        key = find_dataset(ibi)
        extras = [{"key": "reason for removal", "value": reason}]
        act("package_patch", id=key, extras=extras)
        act("package_delete", id=key)
