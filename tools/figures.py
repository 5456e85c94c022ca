"""Print how large and how entangled the package is, and how much code a request executes.

Usage: ``python tools/figures.py [FOLDER]``, with the folder of another checkout whose figures are
compared. Most figures are read from the source code. The calls are counted in the thread that
handles the request, in apps like those of the example; the first call fills the caches, and the
second one is counted.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

from flask import Flask
from sqlalchemy import event
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

ROOT = Path(sys.argv[1] if sys.argv[1:] else Path(__file__).parent.parent).resolve()
sys.path.insert(0, str(ROOT))
PACKAGE = "flask_ibi_archive"
ITEM = "8JMKD3MGP8W/35MME4E"

#: Uses of interfaces that a library does not document; each pattern is one interface.
PRIVATE = (
    "_handle_dbapi_exception", "_connect_gen", r"psycopg\.generators", r"_new_conn\b", "_dns_host",
    "positiontup", "_compiled_cache", '"get_current_heads"', "after_request_funcs",
    "request.(url_rule|view_args) =",
)  # fmt: skip
DIALECTS = r"dialect\.name|dialect_name|\.driver ==|is_psycopg|is_sqlite|is_postgres"

Import = ast.Import | ast.ImportFrom
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def module_name(path: Path) -> str:
    """Return the dotted name of the module in a file."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


TEXTS = {module_name(path): path.read_text() for path in (ROOT / PACKAGE).rglob("*.py")}
TREES = {name: ast.parse(text) for name, text in TEXTS.items()}


def count_code_lines(text: str, tree: ast.Module) -> int:
    """Return the number of lines that are not blank, not a comment and not in a docstring."""
    documentation: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | Definition) and ast.get_docstring(node) is not None:
            documentation.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return sum(
        number not in documentation and not line.lstrip().startswith("#") and bool(line.strip())
        for number, line in enumerate(text.splitlines(), 1)
    )


def executed_imports(node: ast.AST) -> Iterator[Import]:
    """Yield the import statements that are executed when a module is imported."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Import):
            yield child
        elif not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and not (
            isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)
        ):
            yield from executed_imports(child)


def packages_of(name: str) -> set[str]:
    """Return the names of a module and of the packages that contain it."""
    parts = name.split(".")
    return {".".join(parts[: number + 1]) for number in range(len(parts))}


@cache
def imports_of(module: str) -> frozenset[str]:
    """Return the modules of the package that the imports of a module name."""
    names: set[str] = set()
    for node in executed_imports(TREES[module]):
        prefix = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
        for alias in node.names:
            names |= packages_of(prefix + alias.name)
    return frozenset(names & TREES.keys() - {module})


@cache
def loaded_by(module: str) -> frozenset[str]:
    """Return the modules of the package that importing a module loads, and the module itself."""
    loaded: set[str] = set()
    pending = packages_of(module)
    while pending:
        name = pending.pop()
        loaded.add(name)
        pending |= imports_of(name) - loaded
    return frozenset(loaded)


@cache
def chain_length(module: str) -> int:
    """Return the number of modules in the longest chain of imports that begins with a module."""
    # a package and its own modules may import one another
    lower = (name for name in imports_of(module) if module not in loaded_by(name))
    return 1 + max(map(chain_length, lower), default=0)


def figures_of_code() -> Iterator[tuple[str, object]]:
    """Yield the figures that are read from the source code."""
    code = sum(count_code_lines(TEXTS[name], TREES[name]) for name in TREES)
    imports = [node for tree in TREES.values() for node in ast.walk(tree)]
    import_lines = sum(
        (node.end_lineno or 0) - node.lineno + 1 for node in imports if isinstance(node, Import)
    )
    resolver = loaded_by(f"{PACKAGE}.resolver.extension")
    everything = "\n".join(TEXTS.values())
    branches = {name: len(re.findall(DIALECTS, text)) for name, text in TEXTS.items()}
    tests = [path.read_text() for path in (ROOT / "tests").rglob("*.py")]
    yield "modules", len(TREES)
    yield "code lines", code
    yield "share of import statements", f"{import_lines / code:.1%}"
    yield "longest chain of imports", max(map(chain_length, TREES))
    yield "modules that the resolver loads", len(resolver)
    yield "of them in archive", sum(name.startswith(f"{PACKAGE}.archive") for name in resolver)
    yield "branches on the dialect", sum(branches.values())
    yield "modules with such branches", sum(map(bool, branches.values()))
    yield "private interfaces", sum(re.search(name, everything) is not None for name in PRIVATE)
    yield "lines of tests", sum(len(text.splitlines()) for text in tests)


def session_listeners() -> Iterator[tuple[str, object]]:
    """Yield the numbers of listeners on all sessions, without and with a model of a host."""
    names = []
    listen = event.listen

    def note(target: object, *arguments: object, **options: object) -> None:
        if target is Session:
            names.append(arguments[0])
        listen(target, *arguments, **options)

    # SQLAlchemy does not list listeners; listens_for() calls the function of the module api
    event.listen = event.api.listen = note
    from flask_ibi_archive import IBIArchive, IdentifiedItem

    IBIArchive()
    yield "listeners on all sessions", len(names)

    class Base(DeclarativeBase):
        pass

    class Report(IdentifiedItem, Base):
        __tablename__ = "report"
        id: Mapped[int] = mapped_column(primary_key=True)

    yield "with a model of a host", len(names)
    event.listen = event.api.listen = listen


def count_calls(operation: Callable[[], object]) -> str:
    """Return how many functions of the package an operation calls, and of how many modules."""
    operation()
    calls = []

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(f"{ROOT / PACKAGE}/"):
            calls.append(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        operation()
    finally:
        sys.setprofile(None)
    return f"{len(calls)} / {len(set(calls))}"


def figures_of_requests(folder: Path) -> Iterator[tuple[str, object]]:
    """Yield the calls and modules of three operations of an Archive and a resolver."""
    from example_app.__main__ import RECORDS, RESOLVER_SERVICE, SERVICES, run, serve
    from flask_ibi_archive import IBIArchive
    from flask_ibi_archive.resolver import IBIResolver

    ports = 5931, 5932
    resolver, app = (Flask(name, instance_path=str(folder / name)) for name in ("r", "a"))
    key = folder / "key"
    key.write_text("1" * 20)
    resolver.config.update(
        SECRET_KEY="figures",
        IBI_RESOLVER_SERVICE_IBI=RESOLVER_SERVICE,
        IBI_RESOLVER_INNER_HOSTS="localhost",  # where the Archive is
    )
    app.config.update(
        SECRET_KEY="figures",
        IBI_ARCHIVE_ADDRESS=f"localhost:{ports[1]}",
        IBI_ARCHIVE_SERVICE_IBI=SERVICES[0],
        IBI_ARCHIVE_IP="150.163.34.243",
        IBI_ARCHIVE_ADMIN_EMAIL="admin@example.org",
        IBI_MINT_HOST="repository.example.org",
        IBI_REGISTRATION_KEY="1" * 20,
        IBI_RESOLVER_URL=f"http://localhost:{ports[0]}/{RESOLVER_SERVICE}",
    )
    IBIResolver(resolver)
    IBIArchive(app)
    # the output of the commands is no figure
    with redirect_stdout(sys.stderr), serve(resolver, ports[0]), serve(app, ports[1]):
        run(resolver, "ibi-resolver init")
        run(app, "ibi init")
        run(app, f"ibi import --files-folder {RECORDS} {RECORDS / 'items.jsonl'}")
        run(resolver, f"ibi-resolver register {SERVICES[0]} --key-file {key}")
        run(app, "ibi register-archive")

        def request(app: Flask, address: str, status: int) -> None:
            response = app.test_client().get(address)
            assert response.status_code == status, (address, response.status, response.text)

        query = f"servicesubject=urlRequest&parsedibiurl.ibi={ITEM}"
        query += "&clientinformation.ipaddress=150.163.2.175"
        archive = app.extensions["ibi_archive"].archive
        yield "urlRequest", count_calls(lambda: request(app, f"/{SERVICES[0]}?{query}", 200))
        yield "deposit", count_calls(lambda: archive.deposit(title="On rain", files=[key]))
        yield "persistent URL", count_calls(lambda: request(resolver, f"/{ITEM}", 302))


def main() -> None:
    """Print all figures."""
    with TemporaryDirectory() as name:
        figures = [*figures_of_code(), *session_listeners(), *figures_of_requests(Path(name))]
    for name, value in figures:
        print(f"{name:32} {value}")


if __name__ == "__main__":
    main()
