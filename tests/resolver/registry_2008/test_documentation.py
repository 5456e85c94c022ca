"""The page about the document registry: its session with curl runs as it is printed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from textwrap import dedent
from unittest.mock import patch

import pytest
from support.commands import ROOT, command
from support.loopback import PATIENCE, serving
from support.registries import CHEAP

from example_app import create_resolver
from flask_ibi_archive.core.registry_2008 import VERBS
from flask_ibi_archive.resolver.commands import ibi_resolver

PAGE = (ROOT / "docs/document-registry.rst").read_text(encoding="utf-8")
#: The address of the resolver in the session.
ADDRESS = "localhost:5000"
#: The settings of the resolver in the session.
SETTINGS = dict(re.findall(r"^    export (FLASK_IBI_\w+)=(.*)$", PAGE, re.MULTILINE))
#: The kind and the text of each block of the session: commands (sh) or their answer.
BLOCKS = [
    (kind, dedent(text))
    for kind, text in re.findall(
        r"^\.\. code-block:: (\w+)\n\n(.*?)\n(?=^\S)", PAGE, re.MULTILINE | re.DOTALL
    )
]
#: The time of the session, which is in the identifiers that the resolver mints.
NOON = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """The address of the resolver of the session. Its DNS knows the hosts of the session."""
    with patch.dict(os.environ, SETTINGS):
        app = create_resolver({"IBI_RESOLVER_DATABASE_URI": f"sqlite:///{tmp_path}/db.sqlite"})
    assert command(app, "init", group=ibi_resolver).status == 0
    resolver = app.extensions["ibi_resolver"].resolver
    registry = resolver.document_registry
    registry.look_up = {"hermes.localhost": ("127.0.0.1",)}.__getitem__
    registry.now, registry.cost = lambda: NOON, CHEAP
    with serving(app) as served:
        yield served
    resolver.close(PATIENCE)


def test_the_page_lists_all_verbs() -> None:
    assert re.findall(r"^``([A-Z][a-zA-Z]+)`` ", PAGE, re.MULTILINE) == [*VERBS]


@pytest.mark.rule("P4-01")
@pytest.mark.skipif(shutil.which("curl") is None, reason="the session needs curl")
def test_each_answer_in_the_session_is_the_answer_of_the_resolver(
    address: str, tmp_path: Path
) -> None:
    said = ""
    for kind, text in BLOCKS:
        if kind != "sh":
            assert said.strip() == text.strip()
            continue
        done = subprocess.run(
            ["bash", "-ec", text.replace(ADDRESS, address)],
            cwd=tmp_path,
            env={**os.environ, "NO_PROXY": "*"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr == ""
        said = done.stdout.replace(address, ADDRESS)
