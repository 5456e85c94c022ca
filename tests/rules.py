"""Prints the rules of the documents, each with its tests: ``python tests/rules.py``."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).parent
#: A mark of a test with the ids of rules, up to the name of the test.
MARK = re.compile(r"^ *@pytest\.mark\.rule\((.*?)\)\n(?=.*?^ *def (test_\w+))", re.M | re.S)


def read_rules() -> dict[str, str]:
    """Return the text of each rule by its id, in the order of the documents."""
    lines = (FOLDER / "vectors/rules.txt").read_text(encoding="utf-8").splitlines()
    return {id: text for id, _, text in (line.partition(" ") for line in lines)}


def find_tests() -> dict[str, list[str]]:
    """Return the tests that have the mark ``rule`` by the ids of their rules."""
    found: dict[str, list[str]] = {}
    for path in sorted(FOLDER.rglob("test_*.py")):
        for marked, name in MARK.findall(path.read_text(encoding="utf-8")):
            for id in re.findall(r'"([^"]+)"', marked):
                found.setdefault(id, []).append(f"{path.relative_to(FOLDER.parent)}::{name}")
    # tables of examples, which name the rules themselves
    for path in sorted(FOLDER.glob("vectors/**/*.json")):
        for ids in re.findall(r'"rules": \[(.*?)\]', path.read_text(encoding="utf-8")):
            for id in re.findall(r'"([^"]+)"', ids):
                found.setdefault(id, []).append(str(path.relative_to(FOLDER.parent)))
    return found


if __name__ == "__main__":
    tests = find_tests()
    for id, text in read_rules().items():
        print(id, text, *tests.get(id, ["no test"]), sep="\n    ")
