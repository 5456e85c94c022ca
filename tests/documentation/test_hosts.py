"""The pages about applications of others state what their tests install and run."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from support.commands import ROOT
from support.documentation import DOCS, read

HOSTS = sorted(
    path.parent.name.removesuffix("_site")
    for path in (ROOT / "tests/installed_hosts").glob("*_site/requirements.txt")
)
SHOWN = re.compile(r"^\.\. literalinclude:: (\S+)\n((?:   :.*\n)*)", re.MULTILINE)


def rows() -> dict[str, tuple[str, int]]:
    """Return the versions and the number of lines in the table, by the name of the page."""
    table: list[list[str]] = []
    for line in read("hosts/index.rst").splitlines():
        cells = re.split(r"  +", line.strip())
        if ":doc:`" in line:
            table.append(cells)
        elif table and line.startswith("==="):
            break
        elif table:  # the versions go on
            table[-1][1] += f" {cells[0]}"
    return {page[6:-1]: (versions, int(lines)) for _, versions, lines, page in table}


def shown_lines(page: str) -> Iterator[str]:
    """Yield the lines of the files on a page, or those that are highlighted."""
    for name, options in SHOWN.findall(read(page)):
        text = (DOCS / page).parent.joinpath(name).resolve().read_text()
        begin = re.search(r":start-after: (.*)", options)
        end = re.search(r":end-before: (.*)", options)
        text = text.partition(begin[1])[2] if begin else text
        text = text.partition(end[1])[0] if end else text
        lines = text.splitlines()
        highlighted = re.search(r":emphasize-lines: (.*)", options)
        if highlighted:
            ranges = [part.split("-") for part in highlighted[1].split(",")]
            numbers = [n for part in ranges for n in range(int(part[0]), int(part[-1]) + 1)]
            lines = [lines[number - 1] for number in numbers]
        yield from (line for line in lines if line.strip())


def test_the_table_has_a_row_for_each_application_that_is_tested() -> None:
    assert sorted(rows()) == HOSTS


@pytest.mark.parametrize("host", HOSTS)
def test_the_table_states_the_versions_and_the_lines(host: str) -> None:
    versions, lines = rows()[host]
    folder = ROOT / f"tests/installed_hosts/{host}_site"
    pinned = re.findall(
        r"^([\w-]+)\S*==(\S+)$", (folder / "requirements.txt").read_text(), re.MULTILINE
    )
    assert versions == ", ".join(" ".join(one) for one in pinned)
    assert len(list(shown_lines(f"hosts/{host}.rst"))) == lines
