"""``conformance.rst`` lists every rule, and every module and test that it names exists."""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache

import pytest
from support.commands import ROOT
from support.vectors import FOLDER

PAGE = (ROOT / "tests/conformance.rst").read_text(encoding="utf-8")
#: The ids of all rules, in the order of the documents, then those of the extensions.
IDS = (FOLDER / "rule_ids.txt").read_text(encoding="ascii").split()
HEADING = "rule"
LATER = "later"
LITERAL = re.compile(r"``([^`]+)``")


@dataclass(frozen=True)
class Row:
    """A row of a table: five cells, the lines of each joined by a space."""

    id: str
    about: str
    modules: str
    tests: str
    remark: str

    @property
    def is_later(self) -> bool:
        return self.tests == LATER

    def paths(self) -> list[str]:
        return LITERAL.findall(self.modules)

    def names(self) -> list[str]:
        return LITERAL.findall(self.tests)


def read_rows(page: str) -> list[Row]:
    """Return the rows of all tables without the headings.

    :raises ValueError: if a line of a table does not belong to a row.
    """
    rows: list[list[str]] = []
    in_table = False
    for number, line in enumerate(page.splitlines(), 1):
        if line == ".. list-table::":
            in_table = True
        elif line and not line.startswith(" "):
            in_table = False
        elif not in_table or not line or line.startswith("   :"):
            continue
        elif line.startswith("   * - "):
            rows.append([line[7:]])
        elif line == "     -" or line.startswith("     - "):
            rows[-1].append(line[7:])
        elif line.startswith("       "):
            rows[-1][-1] += " " + line.strip()
        else:
            raise ValueError(f"line {number} does not belong to a row: {line}")
    return [Row(*cells) for cells in rows if cells[0] != HEADING]


@cache
def cases_of(path: str) -> frozenset[str]:
    """Return the names of the tests in a file, of a class as ``Class::test``."""
    file = ROOT / path
    if not file.is_file():
        return frozenset()
    found = set()
    for node in ast.parse(file.read_text(encoding="utf-8"), path).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {
                f"{node.name}::{inner.name}"
                for inner in node.body
                if isinstance(inner, ast.FunctionDef)
            }
    return frozenset(name for name in found if name.rpartition("::")[2].startswith("test_"))


def is_test(name: str) -> bool:
    path, _, test = name.partition("::")
    return re.fullmatch(r"tests/(?:\w+/)*test_\w+\.py", path) is not None and test in cases_of(path)


def is_module(path: str) -> bool:
    is_ours = re.fullmatch(r"(?:flask_ibi_archive|migrations)/(?:\w+/)*\w+\.py", path) is not None
    return is_ours and (ROOT / path).is_file()


def find_wrong_ids(page: str) -> list[str]:
    """Return the ids that are missing, unknown, repeated or in the wrong order."""
    found = [row.id for row in read_rows(page)]
    wrong = set(found) ^ set(IDS) | {id for id, times in Counter(found).items() if times > 1}
    if not wrong:
        wrong = {id for id, right in zip(found, IDS, strict=True) if id != right}
    return sorted(wrong)


def find_missing_modules(page: str) -> list[str]:
    return [path for row in read_rows(page) for path in row.paths() if not is_module(path)]


def find_missing_tests(page: str) -> list[str]:
    return [name for row in read_rows(page) for name in row.names() if not is_test(name)]


def find_incomplete(page: str) -> list[str]:
    """Return the rules with neither "later" nor a module and a test, or with other text."""
    wrong = []
    for row in read_rows(page):
        is_complete = row.is_later or (row.paths() and row.names())
        rest = LITERAL.sub("", row.modules) + LITERAL.sub("", row.tests.removeprefix(LATER))
        if not is_complete or not row.about or rest.strip():
            wrong.append(row.id)
    return wrong


# --- the page ------------------------------------------------------------------------------------


def test_each_rule_is_once_in_the_list_of_ids() -> None:
    assert len(IDS) == len(set(IDS)) > 100
    assert all(re.fullmatch(r"[GDRP][0-9A]+-[0-9]{2}|[A-Z]{2}-[0-9]{1,2}", id) for id in IDS)


def test_the_page_names_every_rule_once_and_in_order() -> None:
    assert find_wrong_ids(PAGE) == []


def test_every_module_that_the_page_names_exists() -> None:
    assert find_missing_modules(PAGE) == []


def test_every_test_that_the_page_names_exists() -> None:
    assert find_missing_tests(PAGE) == []


def test_every_rule_has_a_module_and_a_test_or_is_planned() -> None:
    assert find_incomplete(PAGE) == []


def test_a_planned_rule_is_not_partly_implemented() -> None:
    in_part = [row for row in read_rows(PAGE) if row.remark.startswith("in part")]
    assert all(re.match(r"in part: \S", row.remark) for row in in_part)
    assert not [row.id for row in in_part if row.is_later]


def test_the_page_is_valid_restructured_text() -> None:
    core = pytest.importorskip("docutils.core")
    messages: list[str] = []

    class Stream:
        def write(self, text: str) -> None:
            messages.append(text)

    settings = {
        "report_level": 1,
        "halt_level": 5,
        "warning_stream": Stream(),
        "_disable_config": True,
    }
    core.publish_doctree(PAGE, settings_overrides=settings)
    assert messages == []


# --- the checks find errors ---------------------------------------------------------------

ROW = """
.. list-table::
   :header-rows: 1

   * - rule
     - subject
     - implemented in
     - verified by
     - our decision
   * - G5-01
     - Prefix and suffix
     - ``flask_ibi_archive/core/identifiers/grammar.py``
       ``flask_ibi_archive/core/identifiers/parse.py``
     - ``tests/core/identifiers/test_identifier.py::test_prefix_and_suffix_are_found_in_each_form``
     -
"""


def test_a_row_is_parsed_with_all_its_lines() -> None:
    [row] = read_rows(ROW)
    assert (row.id, row.about, row.remark, row.is_later) == (
        "G5-01",
        "Prefix and suffix",
        "",
        False,
    )
    assert len(row.paths()) == 2
    assert len(row.names()) == 1
    assert find_missing_modules(ROW) == find_missing_tests(ROW) == find_incomplete(ROW) == []


@pytest.mark.parametrize("other", ["G5-99", "G5-02", ""])
def test_a_rule_that_is_missing_unknown_or_repeated_is_found(other: str) -> None:
    assert find_wrong_ids(PAGE.replace("* - G5-01\n", f"* - {other}\n")) == sorted({"G5-01", other})


def test_a_rule_in_the_wrong_place_is_found() -> None:
    changed = PAGE.replace("* - G5-01\n", "* - ?\n").replace("* - G5-02\n", "* - G5-01\n")
    assert find_wrong_ids(changed.replace("* - ?\n", "* - G5-02\n")) == ["G5-01", "G5-02"]


@pytest.mark.parametrize(
    "path", ["flask_ibi_archive/core/identifiers/none.py", "setup.cfg", "tests/conftest.py"]
)
def test_a_missing_module_is_found(path: str) -> None:
    assert find_missing_modules(
        ROW.replace("flask_ibi_archive/core/identifiers/parse.py", path)
    ) == [path]


@pytest.mark.parametrize(
    "name",
    [
        "tests/core/identifiers/test_identifier.py",
        "tests/core/identifiers/test_identifier.py::test_nothing",
        "tests/core/identifiers/test_identifier.py::TestNothing::test_prefix_and_suffix_are_found_in_each_form",
        "tests/core/identifiers/test_none.py::test_prefix_and_suffix_are_found_in_each_form",
        "tests/support/identifier_strategies.py::get_outcome",
        "test_prefix_and_suffix_are_found_in_each_form",
    ],
)
def test_a_missing_test_is_found(name: str) -> None:
    changed = LITERAL.sub(lambda found: f"``{name}``" if "::" in found[1] else found[0], ROW)
    assert find_missing_tests(changed) == [name]


@pytest.mark.parametrize(
    ("pattern", "instead"),
    [
        (r"``tests/.*", ""),
        (r"``tests/.*", "some day"),
        (r"``tests/.*", "later, ``tests/test_conformance.py``"),
        (r"``flask_ibi_archive[^-]*\n", "\n"),
        (r"``flask_ibi_archive/core/identifiers/parse.py``", "parse.py"),
        (r"Prefix and suffix", ""),
    ],
)
def test_a_rule_without_module_or_test_is_found(pattern: str, instead: str) -> None:
    changed = re.sub(pattern, instead, ROW)
    assert changed != ROW
    assert find_incomplete(changed) == ["G5-01"]


def test_a_line_that_belongs_to_no_row_is_found() -> None:
    with pytest.raises(ValueError, match="line 16 does not belong to a row"):
        read_rows(ROW + "  * - G5-02\n")
