"""The app of a real server in the tests of moves.

The environment names the database, the folder, the address and the number of the Archive.
"""

from __future__ import annotations

import os
from pathlib import Path

from flask import Flask
from support.archives import make_app
from support.moves import settings


def create_app() -> Flask:
    return make_app(
        os.environ["TEST_URI"],
        Path(os.environ["TEST_FOLDER"]),
        **settings(int(os.environ["TEST_NUMBER"]), os.environ["TEST_ADDRESS"]),
    )
