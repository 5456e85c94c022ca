"""The examples for other programs, run with a real server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from flask import Flask
from support.archives import archive_of
from support.documentation import Block, blocks
from support.loopback import serving

from flask_ibi_archive.archive.identification.keys import create_key

PAGE = "howto/programs.rst"
SERVER = "https://repository.example.org"
MOST_LINES = 20


def example(language: str) -> Block:
    """Return the last block of the page in a language."""
    return [block for block in blocks(PAGE) if block.language == language][-1]


@pytest.fixture
def run(new_app: Callable[..., Flask], tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Runs a command that has an example of the page as a file, with a key and a real server."""
    app = new_app(IBI_IDENTIFICATION=True)
    archive = archive_of(app)
    archive.init()
    key = create_key(
        archive.database, archive.served().id, "ojs", ["mint", "deposit"], archive.clock()
    )
    with serving(app) as address:

        def run(block: Block, name: str, *command: str) -> str:
            (tmp_path / name).write_text(block.text.replace(SERVER, f"http://{address}"))
            done = subprocess.run(
                [*command, name],
                cwd=tmp_path,
                env={**os.environ, "ARCHIVE_KEY": key},
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            return done.stdout

        yield run


@pytest.mark.parametrize("language", ["bash", "python"])
def test_an_example_is_short(language: str) -> None:
    assert len(example(language).text.splitlines()) <= MOST_LINES


@pytest.mark.slow
def test_the_example_with_curl_reserves_an_identifier(run: Callable[..., str]) -> None:
    answer = json.loads(run(example("bash"), "reserve.sh", "bash"))
    assert len(answer["identifiers"]) == 1
    assert "Idempotency-Key: $(openssl rand -hex 16)" in example("bash").text
    assert shutil.which("openssl"), "the example needs openssl"


def test_the_example_in_python_deposits_an_item(run: Callable[..., str]) -> None:
    assert run(example("python"), "deposit.py", sys.executable).startswith("http://urlib.net/")
