"""The work of comparable systems, in the environment in which they are installed.

`arklet <https://pypi.org/project/arklet/>`_ mints and resolves ARKs with Django,
`invenio-pidstore <https://pypi.org/project/invenio-pidstore/>`_ stores the identifiers of
Invenio with Flask and SQLAlchemy.
"""

from __future__ import annotations

import json
import uuid
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any
from urllib.parse import urlsplit

from .worker import Work, batched, get, repeated

ARKLET, INVENIO = NAMES = ("arklet", "invenio-pidstore")
#: Identifiers from which is read, and the place of the one that is read.
ITEMS, MEASURED = 1000, 500
URL = "http://mtc-m16c.sid.inpe.br/col/sid.inpe.br/mtc-m18@80/2009/07.21.13.23/doc/report.pdf"
BATCH = 1000

# --- arklet --------------------------------------------------------------------------------------


def set_up_arklet(uri: str) -> Any:
    """Configure arklet with its own settings and middleware, and return an authority for ARKs."""
    import django
    from arklet.entrypoints import settings as own
    from django.conf import settings
    from django.core.management import call_command

    values = {name: getattr(own, name) for name in dir(own) if name.isupper()}
    values |= {
        "ALLOWED_HOSTS": ["*"],
        # its migrations are for PostgreSQL; on SQLite, the tables are created from its models
        "MIGRATION_MODULES": {"ark": None} if uri.startswith("sqlite:") else {},
        "DATABASES": {"default": database_of_django(uri)},
    }
    settings.configure(**values)
    django.setup()
    call_command("migrate", run_syncdb=True, verbosity=0)
    from arklet.ark.models import Naan

    naan, _ = Naan.objects.get_or_create(naan=13960, name="us", url="https://a.example/")
    return naan


def database_of_django(uri: str) -> dict[str, Any]:
    """Return the settings of a database, with connections that stay open."""
    url = urlsplit(uri)
    found = {"NAME": url.path.removeprefix("/"), "CONN_MAX_AGE": None}
    if url.scheme == "sqlite":
        pragmas = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL"
        options = {"transaction_mode": "IMMEDIATE", "init_command": pragmas}
        return {**found, "ENGINE": "django.db.backends.sqlite3", "OPTIONS": options}
    server = {"HOST": url.hostname, "PORT": url.port or 5432, "PASSWORD": url.password or ""}
    return {**found, **server, "ENGINE": "django.db.backends.postgresql", "USER": url.username}


def arklet_resolution(uri: str, folder: str) -> Work:
    """Prepare requests for one of a thousand ARKs."""
    naan = set_up_arklet(uri)
    from arklet.ark.models import Ark
    from django.core.wsgi import get_wsgi_application

    arks = [make_ark(naan) for _ in range(ITEMS)]
    Ark.objects.bulk_create(arks)
    return repeated(partial(get, get_wsgi_application(), f"/{arks[MEASURED]}", status="302"))


def make_ark(naan: Any) -> Any:
    """Return a new ARK that is not stored yet."""
    from arklet.ark.models import Ark
    from arklet.ark.utils import generate_noid

    noid = generate_noid(8)
    name = f"{naan.naan}/t{noid}"
    return Ark(ark=name, naan=naan, shoulder="/t", assigned_name=noid, url=URL, metadata="a")


def arklet_minting(uri: str, folder: str) -> Work:
    """Prepare to mint single ARKs."""
    naan = set_up_arklet(uri)
    from arklet.ark.models import Ark

    return repeated(lambda: Ark.objects.mint(naan, "/t", "", "", ""))


def arklet_import(uri: str, folder: str) -> Work:
    """Prepare to store ARKs, one row each, without any checks."""
    naan = set_up_arklet(uri)
    from arklet.ark.models import Ark
    from django.db import transaction

    def store(count: int) -> None:
        with transaction.atomic():
            Ark.objects.bulk_create([make_ark(naan) for _ in range(count)])

    return batched(store, BATCH)


# --- Invenio -------------------------------------------------------------------------------------


def set_up_invenio(uri: str) -> Any:
    """Return an app with the tables of invenio-pidstore; an answered commit is durable."""
    from flask import Flask
    from invenio_db import InvenioDB, db
    from invenio_pidstore import InvenioPIDStore
    from sqlalchemy import event

    app = Flask("invenio")
    app.config["SQLALCHEMY_DATABASE_URI"] = uri
    InvenioDB(app, entry_point_group=None)
    InvenioPIDStore(app)
    with app.app_context():
        if uri.startswith("sqlite:"):

            @event.listens_for(db.engine, "connect")
            def make_durable(connection: Any, record: Any) -> None:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = FULL")

        db.create_all()
    return app


def invenio_resolution(uri: str, folder: str) -> Work:
    """Prepare requests to a view that resolves one of a thousand identifiers and redirects."""
    app = set_up_invenio(uri)
    from flask import redirect
    from invenio_db import db
    from invenio_pidstore.models import PersistentIdentifier, PIDStatus
    from invenio_pidstore.resolver import Resolver

    values = [uuid.uuid4().hex[:10] for _ in range(ITEMS)]
    with app.app_context():
        for value in values:
            pid = PersistentIdentifier(pid_type="recid", pid_value=value)
            pid.status, pid.object_type = PIDStatus.REGISTERED, "rec"
            pid.object_uuid = uuid.uuid4()
            db.session.add(pid)
        db.session.commit()
    resolver = Resolver(pid_type="recid", object_type="rec", getter=lambda found: found)

    def view(value: str) -> Any:
        _, found = resolver.resolve(value)
        return redirect(f"http://mtc-m16c.sid.inpe.br/records/{found}")

    app.add_url_rule("/<value>", view_func=view)
    return repeated(partial(get, app.wsgi_app, f"/{values[MEASURED]}", status="302"))


def invenio_pids(uri: str, folder: str, size: str) -> Work:
    """Prepare to store identifiers in transactions of so many of them."""
    app = set_up_invenio(uri)
    from invenio_db import db
    from invenio_pidstore.providers.recordid_v2 import RecordIdProviderV2

    def store(count: int) -> None:
        with app.app_context():
            for _ in range(count):
                RecordIdProviderV2.create(object_type="rec", object_uuid=uuid.uuid4())
            db.session.commit()

    return batched(store, int(size))


def main() -> None:
    """Print the versions of the comparable systems that this environment has."""
    found = {}
    for name in NAMES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
