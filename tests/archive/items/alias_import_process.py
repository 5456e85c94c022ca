"""Import aliases, and print the peak of the memory that this needs, in bytes.

Arguments: a folder, and the number of aliases. In a process of its own, nothing else needs memory.
"""

from __future__ import annotations

import sys
import tracemalloc
from pathlib import Path

from support.archives import archive_of, import_records, open_app
from support.commands import command
from support.stores import rep_of

ITEMS = 1000


def main(folder: Path, count: int) -> None:
    """Import aliases of a thousand items."""
    file = folder / "many.csv"
    with file.open("w") as lines:
        for number in range(count):
            lines.write(f"{rep_of(number % ITEMS)},hdl:20.500.12345/{number}\n")
    with open_app("sqlite", folder) as app:
        import_records(archive_of(app), [{"rep": rep_of(number)} for number in range(ITEMS)])
        tracemalloc.start()
        done = command(app, "alias", "import", file)
        _, peak = tracemalloc.get_traced_memory()
    assert done.lines == [f"added {count}, unchanged 0"]
    print(peak)


main(Path(sys.argv[1]), int(sys.argv[2]))
