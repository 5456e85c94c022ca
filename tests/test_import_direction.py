"""A module imports from its own layer or from those to the left, and from few libraries."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from support.commands import ROOT

PACKAGE = "flask_ibi_archive"

#: From left to right; those of one row don't know each other.
ROWS = (
    ("errors",),
    ("identifiers",),
    ("protocol",),
    ("resolution",),
    ("records", "config"),
    ("storage",),
    ("service",),
    ("web",),
    ("cli",),
    ("extension",),
    ("resolver",),
)
RANKS = {layer: rank for rank, row in enumerate(ROWS) for layer in row}

#: The libraries that a layer may use besides the standard library.
LIBRARIES = {
    "errors": set(),
    "identifiers": set(),
    "protocol": set(),
    "resolution": set(),
    "records": set(),
    "config": set(),
    "storage": {"sqlalchemy", "alembic", "psycopg"},
    "service": {
        "sqlalchemy",
        "requests",
        "urllib3",
        "pycurl",
        "itsdangerous",
        "counter_robots",
    },
    "web": {"flask", "werkzeug"},
    "cli": {"flask", "click"},
    "extension": {"flask", "click"},
    "resolver": {"flask", "click"},
}
#: The folders that know neither the time nor the world outside.
PURE = ("identifiers", "protocol", "resolution", "records")
WORLDLY = {"time", "socket", "ssl", "http", "subprocess", "threading", "random", "secrets", "os"}


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def name_of(path: Path) -> str:
    """Give the dotted name of a module."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


FILES = {name_of(path): path for path in sorted((ROOT / PACKAGE).rglob("*.py"))}
TREES = {name: parse(path) for name, path in FILES.items()}


def layer_of(module: str) -> str | None:
    """Give the layer that a module of ours lies in, None for the package itself."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else None


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def imports_of(module: str, tree: ast.AST, *, at_load: bool = False) -> Iterator[str]:
    """Give the modules that one imports; ``at_load``: those alone that it needs to be loaded."""
    package = module if FILES[module].name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.iter_child_nodes(tree):
        if at_load and (isinstance(node, ast.FunctionDef) or is_type_checking(node)):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([base] if base else [])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield inner if inner in FILES else base
        else:
            yield from imports_of(module, node, at_load=at_load)


IMPORTS = {module: sorted(set(imports_of(module, tree))) for module, tree in TREES.items()}
MODULES = [module for module in FILES if layer_of(module) is not None]


def test_every_module_lies_in_a_layer() -> None:
    assert {layer_of(module) for module in MODULES} == set(RANKS) == set(LIBRARIES)


def test_relative_imports_are_resolved() -> None:
    tree = ast.parse(
        "from . import keys\nfrom .keys import is_key\nfrom ..errors import IBIError\n"
    )
    assert list(imports_of(f"{PACKAGE}.protocol.messages", tree)) == [
        f"{PACKAGE}.protocol.keys",
        f"{PACKAGE}.protocol.keys",
        f"{PACKAGE}.errors",
    ]


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_from_its_own_layer_or_from_the_left(module: str) -> None:
    here = layer_of(module)
    assert here is not None
    for imported in IMPORTS[module]:
        if imported.partition(".")[0] != PACKAGE:
            continue
        there = layer_of(imported)
        assert there is not None, f"{module} imports the package itself"
        assert there == here or RANKS[there] < RANKS[here], f"{module} imports {imported}"


def test_no_modules_import_each_other_in_a_circle() -> None:
    # a package is loaded before what lies in it, but its __init__ may gather names from there
    graph = {
        module: {
            imported
            for imported in imports_of(module, tree, at_load=True)
            if imported in FILES and imported != module
        }
        for module, tree in TREES.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


@pytest.mark.parametrize("module", MODULES)
def test_a_module_uses_the_libraries_of_its_layer_alone(module: str) -> None:
    here = layer_of(module)
    assert here is not None
    used = {imported.partition(".")[0] for imported in IMPORTS[module]}
    foreign = used - set(sys.stdlib_module_names) - {PACKAGE}
    assert foreign <= LIBRARIES[here]


@pytest.mark.parametrize("module", [name for name in MODULES if layer_of(name) in PURE])
def test_a_pure_module_knows_neither_the_time_nor_the_world_outside(module: str) -> None:
    assert not {imported.partition(".")[0] for imported in IMPORTS[module]} & WORLDLY
    calls = {
        ast.unparse(node.func) for node in ast.walk(TREES[module]) if isinstance(node, ast.Call)
    }
    assert not {
        call for call in calls if call.endswith((".now", ".utcnow", ".today")) or call == "open"
    }


def test_the_package_itself_imports_nothing_but_the_extension() -> None:
    ours = [name for name in IMPORTS[PACKAGE] if name.startswith(PACKAGE)]
    assert ours == [f"{PACKAGE}.extension"]


def test_the_example_uses_public_names_alone() -> None:
    tree = parse(ROOT / "example_app/__init__.py")
    used = {
        node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE)
    }
    assert used <= {PACKAGE, f"{PACKAGE}.errors", f"{PACKAGE}.resolver"}


def test_migrations_that_are_out_import_nothing_of_ours() -> None:
    for path in (ROOT / "migrations/versions").glob("*.py"):
        assert PACKAGE not in path.read_text(encoding="utf-8"), path
