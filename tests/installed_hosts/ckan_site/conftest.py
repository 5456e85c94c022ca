"""CKAN with its own database, and a stand-in for Solr that finds no dataset."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, text
from support.databases import POSTGRESQL
from support.loopback import serving
from werkzeug.wrappers import Request, Response

#: The extension on the page docs/hosts.rst.
EXTENSION = Path(__file__).parent / "ckanext-ibi"
PROGRAM = str(Path(sys.executable).with_name("ckan"))
EMPTY_INDEX = {"response": {"numFound": 0, "start": 0, "docs": []}, "facet_counts": {}}


@dataclass(frozen=True)
class Installation:
    """An installed CKAN with the configuration file ``ckan.ini`` in a folder."""

    folder: Path
    database_uri: str
    program: str = PROGRAM

    @property
    def ini(self) -> str:
        """The path of the configuration file."""
        return str(self.folder / "ckan.ini")

    def configure(self, **settings: str) -> None:
        """Change settings in the configuration file."""
        run_ckan("config-tool", self.ini, *(f"{key} = {value}" for key, value in settings.items()))

    def embed(self, address: str, database_uri: str) -> None:
        """Use the extension with the settings of the page, at another address and in a folder.

        :param database_uri: the URL of the database of the Archive.
        """
        run_ckan("config-tool", self.ini, "-f", str(EXTENSION / "ibi.ini"))
        self.configure(
            **{
                "ckan.site_url": f"http://{address}",
                "IBI_ARCHIVE_ADDRESS": address,
                "IBI_MINT_HOST": "data.example.org",
                "IBI_PERSISTENT_URL_BASE": f"http://{address}",
                "IBI_RESOLVER_URL": f"http://{address}/robots.txt",
                "IBI_DATABASE_URI": database_uri,
                "IBI_FILES_FOLDER": str(self.folder / "ibi"),
            }
        )

    def run(self, *arguments: str, typed: str = "") -> str:
        """Run a command of CKAN with this configuration, and return its output."""
        return run_ckan("-c", self.ini, *arguments, typed=typed)


def run_ckan(*arguments: str, typed: str = "") -> str:
    """Run a command of CKAN, and return its output."""
    done = subprocess.run(
        [PROGRAM, *arguments], capture_output=True, text=True, input=typed, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@Request.application
def answer_as_solr(request: Request) -> Response:
    """Answer that the index contains nothing. CKAN then reads datasets from its database."""
    if request.path.endswith("/schema"):
        return Response('<schema name="ckan-2.12"/>', mimetype="text/xml")
    return Response(json.dumps(EMPTY_INDEX), mimetype="application/json")


@pytest.fixture(scope="session")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """CKAN with empty tables, without the extension."""
    folder = tmp_path_factory.mktemp("ckan")
    name = f"ckan_{uuid.uuid4().hex}"
    engine = create_engine(POSTGRESQL, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection, serving(answer_as_solr) as solr:
        connection.execute(text(f"CREATE DATABASE {name}"))
        url = make_url(POSTGRESQL).set(drivername="postgresql", database=name)
        ckan = Installation(folder, url.render_as_string(hide_password=False))
        run_ckan("generate", "config", ckan.ini)
        ckan.configure(
            **{
                "sqlalchemy.url": ckan.database_uri,
                "solr_url": f"http://{solr}/solr/ckan",
                "ckan.storage_path": str(folder),
                "ckan.views.default_views": "",
                "ckan.auth.create_unowned_dataset": "true",
            }
        )
        ckan.run("db", "upgrade")
        yield ckan
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()
