"""Three resolvers, two of which are killed: readers who try three addresses never fail."""

from __future__ import annotations

import http.client
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from flask import Flask
from support.archive_servers import Servers
from support.commands import ROOT, command
from support.loopback import HERE, PATIENCE
from support.registries import a_registry
from support.resolving import Table, archives_of, include, leads, resolver_of

from flask_ibi_archive.resolver import IBIResolver
from flask_ibi_archive.resolver.claims.resolver_key import create_key
from flask_ibi_archive.resolver.commands import ibi_resolver

HERE_FOLDER = Path(__file__).parent
#: The number of Archives, of items in each of them, and of readers.
ARCHIVES, ITEMS, READERS = 4, 5, 6


def settings_of(folder: Path) -> dict[str, Any]:
    """Return the settings of a resolver with all its files in a folder."""
    return {
        "IBI_RESOLVER_DATABASE_URI": f"sqlite:///{folder / 'resolver.sqlite'}",
        "IBI_RESOLVER_CLAIMS_FOLDER": str(folder / "claims"),
        "IBI_RESOLVER_INNER_HOSTS": list(HERE),
        "IBI_RESOLVER_ARCHIVE_TIMEOUT": PATIENCE,
        "IBI_RESOLVER_DEADLINE": PATIENCE,
        "IBI_RESOLVER_FOLLOW": True,
    }


@contextmanager
def made(folder: Path) -> Iterator[Flask]:
    """Create a resolver in a folder, and yield its app, which follows nothing."""
    folder.mkdir()
    app = Flask("resolver")
    app.config.from_mapping(settings_of(folder))
    IBIResolver(app)
    resolver_of(app).init()
    try:
        yield app
    finally:
        resolver_of(app).close()


@contextmanager
def serving(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a process that serves the resolver in a folder; yield the process and its address."""
    process = subprocess.Popen(
        [sys.executable, str(HERE_FOLDER / "resolver_server.py"), json.dumps(settings_of(folder))],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"},
    )
    try:
        assert process.stdout is not None
        yield process, f"127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.communicate()


def read(addresses: Sequence[str], ibi: str) -> str | None:
    """Return to which URL the first resolver that answers redirects; None if none of them does."""
    for address in addresses:
        with (
            suppress(OSError, http.client.HTTPException),
            closing(http.client.HTTPConnection(address, timeout=PATIENCE)) as connection,
        ):
            connection.request("GET", f"/{ibi}")
            response = connection.getresponse()
            if response.status == 302:
                return response.getheader("Location")
    return None


def test_readers_who_try_three_addresses_never_fail(hosts: Servers, tmp_path: Path) -> None:
    expected = {
        f"a.br/items{number}/2001/01.01.00.{item:02}": f"http://a{number}.example.org/{item}"
        for number in range(ARCHIVES)
        for item in range(ITEMS)
    }
    tables: list[Table] = [
        {ibi: leads(url) for ibi, url in expected.items() if f"/items{number}/" in ibi}
        for number in range(ARCHIVES)
    ]
    with ExitStack() as stack:
        with made(tmp_path / "first") as first:
            include(a_registry(resolver_of(first).database), archives_of(hosts, *tables))
            key = create_key(resolver_of(first).config).verifier.format()
        servers = [stack.enter_context(serving(tmp_path / "first"))]
        for name in ("second", "third"):
            with made(tmp_path / name) as mirror:
                url = f"http://{servers[0][1]}"
                outcome = command(mirror, "mirror", url, "--key", key, group=ibi_resolver)
                assert outcome.data == f"{ARCHIVES} Archives, {ARCHIVES} of them changed\n"
            servers.append(stack.enter_context(serving(tmp_path / name)))
        addresses = [address for _, address in servers]
        for address in addresses:
            assert {ibi: read([address], ibi) for ibi in expected} == expected
        chance = random.Random(1)
        asked = [
            (ibi, chance.sample(addresses, 3)) for ibi in chance.choices(sorted(expected), k=180)
        ]
        with ThreadPoolExecutor(READERS) as pool:
            results = [pool.submit(read, order, ibi) for ibi, order in asked]
            # killed after a number of requests, not after a time
            results[60].result()
            servers[0][0].kill()
            results[120].result()
            servers[1][0].kill()
            found = [result.result() for result in results]
        assert found == [expected[ibi] for ibi, _ in asked]
        # the third resolver alone knows all Archives
        assert {ibi: read(addresses, ibi) for ibi in expected} == expected
        assert [read(addresses[:2], ibi) for ibi in sorted(expected)[:3]] == [None] * 3
