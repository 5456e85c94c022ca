"""Run further processes of a resolver: the follower, and servers with gunicorn.

The environment variable BENCH_RESOLVER contains the settings of the app as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from flask import Flask
from support.loopback import HERE

from flask_ibi_archive.resolver import IBIResolver
from flask_ibi_archive.resolver.service import ResolverService

from .fan_out import ADDRESS
from .federation_items import REMOVED, Federation, Item
from .processes import ROOT
from .worker import Work, requests_to

#: The host in persistent URLs.
HOST = "urlib.net"
#: Where the commands and servers find the app.
APP = "benchmarks.federation_resolvers:create_resolver"


def make_settings(folder: Path, uri: str, **more: Any) -> dict[str, Any]:
    """Return the settings of a resolver that allows Archives on loopback.

    An app with a resolver alone needs no SECRET_KEY, with which Flask reads a session each time.
    """
    return {
        "IBI_RESOLVER_DATABASE_URI": uri,
        "IBI_RESOLVER_INNER_HOSTS": HERE,
        "IBI_RESOLVER_CLAIMS_FOLDER": str(folder / "claims"),
        **more,
    }


def make_environment(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment variables of the processes."""
    paths = os.pathsep.join((str(ROOT), str(ROOT / "tests")))
    return {"PYTHONPATH": paths, "BENCH_RESOLVER": json.dumps(settings)}


def make_resolver(settings: Mapping[str, Any]) -> Flask:
    """Return the app of a resolver."""
    app = Flask("resolver", instance_path=settings["IBI_RESOLVER_CLAIMS_FOLDER"])
    app.config.from_mapping(settings)
    IBIResolver(app)
    return app


def create_resolver() -> Flask:
    """Return the app that the process runs."""
    return make_resolver(json.loads(os.environ["BENCH_RESOLVER"]))


def get_service(app: Flask) -> ResolverService:
    """Return the resolver of an app."""
    return cast(ResolverService, app.extensions["ibi_resolver"].resolver)


def request_item(app: Flask, item: Item) -> None:
    """Resolve a persistent URL of an item, as a request to the app."""
    status = "410" if item.role == REMOVED else "302"
    variables = {"HTTP_HOST": HOST, "REMOTE_ADDR": ADDRESS}
    requests_to(app.wsgi_app, f"/{item.rep}", "", status, **variables)(1)


def resolutions(settings: str, federation: str) -> Work:
    """Prepare resolutions of items that were not resolved before, of one Archive after another."""
    app, archives = make_resolver(json.loads(settings)), Federation(**json.loads(federation))
    items = (
        Item(archive, number)
        for number in range(archives.items)
        for archive in range(archives.archives)
        if archive not in archives.faults
    )

    def work(count: int) -> None:
        for _ in range(count):
            request_item(app, next(items))

    return work


@contextmanager
def following(settings: Mapping[str, Any]) -> Iterator[subprocess.Popen[bytes]]:
    """Run the follower of a resolver in another process."""
    with subprocess.Popen(
        [sys.executable, "-m", "flask", "--app", APP, "ibi-resolver", "follow"],
        cwd=ROOT,
        env={**os.environ, **make_environment(settings)},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def read_cpu(process: int) -> float:
    """Return the seconds of CPU time that a process has used."""
    words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
