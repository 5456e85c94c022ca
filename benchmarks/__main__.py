"""Measure the figures of the documentation.

    python -m benchmarks --output docs/figures.json

compares this package in one run with what any system costs (Flask alone, a database's driver alone)
and with comparable systems, if they are installed: arklet and invenio-pidstore. The systems
work in turn, so that the load of the computer changes the ratios of their CPU time little;
instructions are counted by callgrind, if valgrind is installed. Databases are created for the
run, and dropped at the end. The page of figures is written from the output:
python -m benchmarks.page
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timezone
from importlib.metadata import version
from os import cpu_count
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError
from support.databases import POSTGRESQL

from .measurements import FULL, PARTS, QUICK, Bench
from .processes import ROOT
from .targets import check

PACKAGES = ("Flask", "SQLAlchemy", "psycopg", "flask_ibi_archive")


def find_comparable(python: str) -> dict[str, str]:
    """Return the versions of the comparable systems that an interpreter finds."""
    done = subprocess.run(
        [python, "-m", "benchmarks.comparable"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, str] = json.loads(done.stdout)
    return found


def find_postgresql(server: str) -> str | None:
    """Return the version of a server; None if it does not answer."""
    engine = create_engine(server, connect_args={"connect_timeout": 3})
    try:
        with engine.connect() as connection:
            return str(connection.scalar(text("SHOW server_version"))).split(" ")[0]
    except OperationalError:
        return None
    finally:
        engine.dispose()


def conditions(databases: Mapping[str, str], comparable: Mapping[str, str]) -> dict[str, Any]:
    """Return what the figures depend on."""
    return {
        "date": datetime.now(timezone.utc).date().isoformat(),
        "cores": cpu_count(),
        "Python": platform.python_version(),
        "databases": databases,
        "packages": {name: version(name) for name in PACKAGES},
        "comparable": comparable,
    }


def parse_options(words: list[str] | None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rows", nargs="+", choices=PARTS, default=list(PARTS), metavar="ROW")
    parser.add_argument(
        "--databases", nargs="+", choices=("sqlite", "postgresql"), default=["sqlite", "postgresql"]
    )
    parser.add_argument(
        "--postgresql", metavar="URL", default=POSTGRESQL, help="a server to create databases on"
    )
    parser.add_argument("--items", type=int, help="items to import (default: 100,000)")
    parser.add_argument("--output", type=Path, help="where to write the figures, as JSON")
    parser.add_argument("--quick", action="store_true", help="measure less, in three minutes")
    parser.add_argument(
        "--comparable",
        metavar="PYTHON",
        default=sys.executable,
        help="an interpreter with arklet and invenio-pidstore (default: this one)",
    )
    parser.epilog = f"rows: {', '.join(PARTS)}"
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> None:
    """Measure, print the progress, and write the figures."""
    options = parse_options(words)
    scope = QUICK if options.quick else FULL
    if options.items:
        scope = replace(scope, items=options.items)
    begun = time.monotonic()

    def say(line: str) -> None:
        print(f"[{time.monotonic() - begun:4.0f} s] {line}", file=sys.stderr, flush=True)

    # systems are started in another folder
    python = str(Path(shutil.which(options.comparable) or options.comparable).absolute())
    comparable = find_comparable(python)
    versions = {"sqlite": sqlite3.sqlite_version, "postgresql": find_postgresql(options.postgresql)}
    databases = {name: versions[name] for name in options.databases}
    if None in databases.values():
        sys.exit(f"no PostgreSQL answers at {options.postgresql}; choose --databases sqlite")
    figures: list[dict[str, Any]] = []
    found = {**conditions(databases, comparable), "quick": options.quick, "figures": figures}
    for backend in databases:
        server = options.postgresql if backend == "postgresql" else None
        for part in options.rows:
            say(f"{backend}: {part}")
            with tempfile.TemporaryDirectory() as folder:
                bench = Bench(Path(folder), server, scope, comparable, python, say)
                PARTS[part](bench)
                figures += bench.figures
            if options.output:
                options.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for line in check(figures):
        print(line)


if __name__ == "__main__":
    main()
