"""A forked process does not use or close the connections of its parent."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from flask import Flask
from support.archives import archive_of

pytestmark = pytest.mark.postgresql

CHILDREN = 3
MINTED = 4


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_forked_processes_mint_and_answer_like_their_parent(app: Flask) -> None:
    archive = archive_of(app)
    parents = [one.rep for one in archive.mint(2)]
    assert archive.get("sid.inpe.br/nothing/2001/01.01.00.00") is None

    def work() -> bytes:
        assert archive.get("sid.inpe.br/nothing/2001/01.01.00.00") is None
        return "\n".join(archive.mint()[0].rep for _ in range(MINTED)).encode()

    children = [fork(work) for _ in range(CHILDREN)]
    parents += [archive.mint()[0].rep for _ in range(MINTED)]
    labels = [label for read in children for label in read().decode().split("\n")]
    assert len({*labels, *parents}) == CHILDREN * MINTED + 2 + MINTED


def fork(work: Callable[[], bytes]) -> Callable[[], bytes]:
    """Run a function in a forked process; return a function that waits for its result."""
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        status = 1
        try:
            os.write(writer, work())
            status = 0
        finally:
            os._exit(status)
    os.close(writer)

    def wait() -> bytes:
        with os.fdopen(reader, "rb") as result:
            found = result.read()
        assert os.waitpid(process, 0)[1] == 0
        return found

    return wait
