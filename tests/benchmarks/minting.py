"""Compare the rate of minting with arklet: one process, one durable commit each, on SQLite.

Run it with ``pip install arklet`` and ``python tests/benchmarks/minting.py``. Rounds of both are
interleaved, and the median of their ratios is printed, because the load of a machine changes times
more than ratios. Both databases are files in one folder, in WAL mode with ``synchronous = FULL``.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

from flask_ibi_archive.archive.minting import Minter, Subsystem
from flask_ibi_archive.storage import migrate
from flask_ibi_archive.storage.database import Database

ROUNDS = 15
CALLS = 200
#: So fine that no request waits for its date.
GRANULARITY = Fraction(1, 10**6)


def our_minter(folder: Path) -> Callable[[], object]:
    """Return a function that mints one identifier of this package."""
    database = Database.at(f"sqlite:///{folder / 'ours.sqlite'}")
    database.create()
    with database.writing() as connection:
        migrate.upgrade(connection)
    return Minter(database, Subsystem("mtc-m18.sid.inpe.br", "150.163.34.243"), GRANULARITY).mint


def arklet_minter(folder: Path) -> Callable[[], object]:
    """Return a function that mints one ARK as arklet does."""
    import django
    from django.conf import settings
    from django.core.management import call_command

    settings.configure(
        INSTALLED_APPS=[
            "django.contrib.auth",
            "django.contrib.contenttypes",
            "arklet.ark.apps.ArkConfig",
        ],
        AUTH_USER_MODEL="ark.User",
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        USE_TZ=True,
        # its migrations are for PostgreSQL only, so the tables are created from its models
        MIGRATION_MODULES={"ark": None},
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.sqlite3",
                "NAME": folder / "arklet.sqlite",
                "OPTIONS": {
                    "transaction_mode": "IMMEDIATE",
                    "init_command": "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL",
                },
            }
        },
    )
    django.setup()
    call_command("migrate", run_syncdb=True, verbosity=0)
    from arklet.ark.models import Ark, Naan

    naan = Naan.objects.create(naan=13960, name="us", description="", url="https://a.example/")
    return lambda: Ark.objects.mint(naan, "/t", "", "", "")


def rate(mint: Callable[[], object]) -> float:
    """Return how many times per second a function ran."""
    start = time.perf_counter()
    for _ in range(CALLS):
        mint()
    return CALLS / (time.perf_counter() - start)


def main() -> None:
    """Print the rates and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--folder", type=Path, help="where to create the databases (default: a temporary folder)"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        ours, theirs = our_minter(Path(folder)), arklet_minter(Path(folder))
        rounds = [(rate(ours), rate(theirs)) for _ in range(ROUNDS)]
    for name, rates in zip(("flask_ibi_archive", "arklet"), zip(*rounds, strict=True), strict=True):
        print(f"{name:20} {statistics.median(rates):8.0f} identifiers/s")
    ratio = statistics.median(our / their for our, their in rounds)
    print(f"{'ratio':20} {ratio:8.2f}")


if __name__ == "__main__":
    main()
