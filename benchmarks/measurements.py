"""Measure the rows of the page of figures on one kind of database."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from operator import truediv
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, make_url, text

from . import loads, lower_bounds, ours
from .processes import (
    Running,
    System,
    can_count_instructions,
    count_instructions,
    median,
    median_ratio,
    running,
)
from .targets import OURS, TOGETHER

Rounds = Sequence[Sequence[Mapping[str, float]]]


@dataclass(frozen=True)
class Scope:
    """How much is measured.

    :param rounds: rounds in which the systems work in turn.
    :param requests: requests, or identifiers, of each system in a round.
    :param instructions: requests whose instructions are counted.
    :param items: items that are imported.
    :param growth: items of a large Archive.
    :param editions: editions of the longer chain.
    :param accesses: acknowledgments, and resolutions.
    """

    rounds: int = 15
    requests: int = 200
    instructions: int = 50
    items: int = 100_000
    growth: int = 1_000_000
    editions: int = 10_000
    accesses: int = 2_000


FULL = Scope()
QUICK = Scope(
    rounds=5,
    requests=100,
    instructions=20,
    items=12_000,
    growth=10_000,
    editions=1_000,
    accesses=400,
)


@dataclass
class Bench:
    """Measures on one kind of database, in new databases that are dropped at the end.

    :param server: the URL of a PostgreSQL server. None: SQLite files.
    :param comparable: the versions of the comparable systems that are installed.
    :param python: the interpreter of the environment in which they are installed.
    """

    folder: Path
    server: str | None
    scope: Scope
    comparable: Mapping[str, str]
    python: str
    say: Callable[[str], None]
    figures: list[dict[str, Any]] = field(default_factory=list)

    @property
    def backend(self) -> str:
        """The kind of database."""
        return "postgresql" if self.server else "sqlite"

    @contextmanager
    def database(self) -> Iterator[str]:
        """Yield the URL of a new database."""
        name = f"ibi_bench_{uuid.uuid4().hex}"
        if self.server is None:
            yield f"sqlite:///{self.folder / name}.sqlite"
            for path in self.folder.glob(f"{name}*"):
                path.unlink()
            return
        self._execute(f"CREATE DATABASE {name}")
        try:
            yield make_url(self.server).set(database=name).render_as_string(False)
        finally:
            self._execute(f"DROP DATABASE {name} WITH (FORCE)")

    def _execute(self, statement: str) -> None:
        assert self.server is not None
        engine = create_engine(self.server, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(statement))
        engine.dispose()

    @contextmanager
    def comparables(self, work: str) -> Iterator[list[System]]:
        """Yield the comparable systems that are installed, each with a database of its own."""
        with ExitStack() as stack:
            yield [
                System(
                    name,
                    f"comparable:{name.partition('-')[0]}_{work}",
                    (stack.enter_context(self.database()),),
                    self.python,
                )
                for name in self.comparable
            ]

    def add(self, row: str, system: str, **values: float) -> None:
        """Add a figure; counts are integers and are not rounded."""
        rounded = {
            name: value if isinstance(value, int) else float(f"{value:.4g}")
            for name, value in values.items()
        }
        figure = {"row": row, "system": system, "database": self.backend, **rounded}
        self.figures.append(figure)
        shown = ", ".join(f"{name} {value:g}" for name, value in rounded.items())
        self.say(f"  {row}, {system}: {shown}")

    # --- reading ---------------------------------------------------------------------------------

    def reading(self) -> None:
        """Measure requests: the ratios of their CPU time to that of a bare view."""
        with self.database() as uri, self.comparables("resolution") as comparables:
            place = (uri, str(self.folder))
            ours.prepare(*place)
            lower_bounds.prepare_lazy_objects(uri)
            rows = {
                System("bare Flask view", "lower_bounds:bare_view", ()): "url_request",
                System(
                    "bare Flask view, SECRET_KEY", "lower_bounds:bare_view_with_key", ()
                ): "url_request",
                System("Flask, one Core SELECT", "lower_bounds:one_select", (uri,)): "url_request",
                **dict.fromkeys(comparables, "url_request"),
                System(OURS, "ours:url_request", place): "url_request",
                System(OURS, "ours:metadata_request", place): "metadata_request",
                System("lazy ORM, 49 pairs", "lower_bounds:lazy_objects", (uri,)): "url_list",
                System(OURS, "ours:unfiltered_list", place): "url_list",
            }
            self._compare_requests(rows)

    def _compare_requests(self, rows: Mapping[System, str]) -> None:
        systems = list(rows)
        found = self._interleave(systems)
        counted = self._count(systems)
        for column, (system, row) in enumerate(rows.items()):
            values = {
                "microseconds": median(found, column, "cpu") / self.scope.requests * 1e6,
                "ratio": median_ratio(found, column, "cpu"),
            }
            if counted:
                values["instructions"] = counted[column]
                values["instruction_ratio"] = counted[column] / counted[0]
            self.add(row, system.name, **values)

    def _interleave(self, systems: Sequence[System]) -> Rounds:
        """Return what the work of each system took in each round."""
        with running(systems) as processes:
            for process in processes:
                process.run(self.scope.requests)
            return [
                [process.run(self.scope.requests) for process in processes]
                for _ in range(self.scope.rounds)
            ]

    def _count(self, systems: Sequence[System]) -> list[float]:
        """Return the instructions of a request of each system; empty without valgrind."""
        if not can_count_instructions():
            return []
        self.say("  counting instructions")
        count = self.scope.instructions
        # other processes do not change the number of instructions
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(lambda one: count_instructions(one, count, count), systems))

    # --- writing ---------------------------------------------------------------------------------

    def minting(self) -> None:
        """Measure how many identifiers one process mints, and three processes together."""
        with self.database() as uri, self.database() as bare, self.comparables("minting") as others:
            ours.initialise(uri, str(self.folder))
            system = System(OURS, "ours:minting", (uri, str(self.folder)))
            driver = System("driver, two statements", "lower_bounds:two_statements", (bare,))
            systems = [driver, *others, system]
            found = self._interleave(systems)
            for column, one in enumerate(systems):
                self._add_rate("minting", one, found, column)
            self._mint_together(system)

    def _add_rate(self, row: str, system: System, found: Rounds, column: int) -> None:
        rate = self.scope.requests / median(found, column, "clock")
        self.add(row, system.name, per_second=rate, ratio=1 / median_ratio(found, column, "clock"))

    def _mint_together(self, system: System) -> None:
        with running([system] * 3) as processes:
            rates = []
            for _ in range(self.scope.rounds):
                for process in processes:
                    process.begin(self.scope.requests)
                longest = max(process.end()["clock"] for process in processes)
                rates.append(len(processes) * self.scope.requests / longest)
        self.add("minting", TOGETHER, per_second=sorted(rates)[len(rates) // 2])

    def deposits(self) -> None:
        """Measure deposits without files."""
        with self.database() as uri:
            ours.initialise(uri, str(self.folder))
            system = System(OURS, "ours:deposits", (uri, str(self.folder)))
            found = self._interleave([system])
            rate = self.scope.requests / median(found, 0, "clock")
            self.add("deposits", OURS, per_second=rate)

    def importing(self) -> None:
        """Measure an import, and the size of its database."""
        with self.database() as uri, self.database() as bare, self.comparables("import") as others:
            ours.initialise(uri, str(self.folder))
            system = System(OURS, "ours:imports", (uri, str(self.folder)))
            driver = System("driver, five rows", "lower_bounds:five_rows", (bare,))
            # groups of six
            few, size = 1002, self.scope.items // 4 // 6 * 6
            ours.write_imports(self.folder, [few, *[size] * 4])
            with running([driver, *others, system]) as processes:
                for process in processes:
                    process.run(few)
                begin = self._size(uri)
                found = self._import_rounds(processes, size)
            for column, one in enumerate([driver, *others, system]):
                values = {"per_second": found[column][0], "ratio": found[column][0] / found[0][0]}
                if one is system:
                    values["megabytes"] = found[column][1]
                self.add("import", one.name, **values)
            grown = 4 * size
            self.add("size", OURS, items=grown + few, bytes=(self._size(uri) - begin) / grown)

    def _import_rounds(self, processes: Sequence[Running], size: int) -> list[tuple[float, float]]:
        """Return items per second and peak memory of each system."""
        seconds = [0.0] * len(processes)
        items = [0] * len(processes)
        peaks = [0.0] * len(processes)
        for _ in range(4):
            for column, process in enumerate(processes):
                # Invenio takes so long that fewer items have to do
                count = min(size, 2000) if "invenio" in process.system.name else size
                taken = process.run(count)
                seconds[column] += taken["clock"]
                items[column] += count
                peaks[column] = taken["peak"]
        return [
            (count / second, peak)
            for count, second, peak in zip(items, seconds, peaks, strict=True)
        ]

    def _size(self, uri: str) -> float:
        """Return the bytes of a database."""
        engine = create_engine(uri)
        with engine.connect() as connection:
            if self.server is None:
                connection.execute(text("PRAGMA wal_checkpoint(TRUNCATE)")).all()
                size = Path(str(make_url(uri).database)).stat().st_size
            else:
                size = connection.scalar(text("SELECT pg_database_size(current_database())"))
        engine.dispose()
        return float(size)

    # --- growth ----------------------------------------------------------------------------------

    def growth(self) -> None:
        """Compare the instructions of urlRequests in large and in small Archives."""
        if not can_count_instructions():
            self.say("  valgrind is not installed")
            return
        with self.database() as uri:
            place = (uri, str(self.folder))
            ours.prepare(*place)
            names = ("url_request", "metadata_request", "unfiltered_list")
            systems = [System(OURS, f"ours:{name}", place) for name in names]
            small = self._count(systems)
            ours.grow(*place, self.scope.growth)
            large = self._count(systems)
            ratio = max(map(truediv, large, small))
            self.add(
                "growth", OURS, few=ours.ITEMS, many=self.scope.growth, instruction_ratio=ratio
            )
            lengths = (1, 2, self.scope.editions)
            for length in lengths:
                ours.import_editions(*place, length)
            *short, long = self._count(
                [System(OURS, "ours:last_edition", (*place, str(length))) for length in lengths]
            )
            # only a chain of two and more has another edition to read
            for row, few, one in zip(("editions", "longer_chain"), lengths[:2], short, strict=True):
                ratio = long / one
                self.add(row, OURS, few=few, many=lengths[-1], instruction_ratio=ratio)

    def aliases(self) -> None:
        """Compare the instructions of redirects and urlRequests with many and with few aliases."""
        if not can_count_instructions():
            self.say("  valgrind is not installed")
            return
        with self.database() as uri:
            place = (uri, str(self.folder))
            ours.prepare(*place)
            ours.name_items(*place)
            names = ("former_link", "former_address", "url_request")
            systems = [System(OURS, f"ours:{name}", place) for name in names]
            small = self._count(systems)
            ours.grow(*place, self.scope.growth)
            ours.add_more_aliases(*place)
            *links, request = map(truediv, self._count(systems), small)
            sizes = {"few": ours.ITEMS, "many": self.scope.growth}
            self.add("former_links", OURS, **sizes, instruction_ratio=max(links))
            self.add("named_items", OURS, **sizes, instruction_ratio=request)

    # --- several processes -----------------------------------------------------------------------

    def acknowledgments(self) -> None:
        """Measure acknowledgments that 32 threads send to three workers of gunicorn."""
        with self.database() as uri:
            rate = loads.take_acknowledgments(uri, self.folder, self.scope.accesses)
            self.add("acknowledgments", OURS, per_second=rate)

    def serving(self) -> None:
        """Measure the CPU time of a urlRequest with gunicorn, and that of the database."""
        with self.database() as uri:
            self.add("server", OURS, **loads.serve_requests(uri, self.folder, self.scope.accesses))

    def resolution(self) -> None:
        """Measure resolutions in one process, which asks 32 Archives for each."""
        with self.database() as uri:
            system = System(OURS, "loads:resolutions", (uri,))
            with running([system]) as [process]:
                process.run(self.scope.accesses // 10)
                taken = process.run(self.scope.accesses)
            self.add(
                "resolution",
                OURS,
                per_second=self.scope.accesses / taken["clock"],
                microseconds=taken["cpu"] / self.scope.accesses * 1e6,
            )


#: The parts that can be chosen, in their order.
PARTS: Mapping[str, Callable[[Bench], None]] = {
    "reading": Bench.reading,
    "minting": Bench.minting,
    "deposits": Bench.deposits,
    "import": Bench.importing,
    "growth": Bench.growth,
    "aliases": Bench.aliases,
    "acknowledgments": Bench.acknowledgments,
    "server": Bench.serving,
    "resolution": Bench.resolution,
}
