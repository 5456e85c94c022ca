"""The resolver's commands as found by the entry point, and the example's resolver."""

from __future__ import annotations

from pathlib import Path

from support.cases import for_each
from support.commands import process, python


def test_the_commands_are_found_by_the_entry_point(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path / 'resolver.sqlite'}"
    more = {"FLASK_APP": "example_app:create_resolver", "FLASK_IBI_RESOLVER_DATABASE_URI": uri}
    assert process(tmp_path, "ibi-resolver", "init", **more).data == "J8LNKB5R7W/3FUQHC5\n"


@for_each(
    ("words", "status", "line"),
    [
        (("--folder", "{file}/data"), 1, "Error: IBI_RESOLVER_DATABASE_URI is 'sqlite:///"),
        (("--port", "65534"), 2, "argument --port: 65534 is not from 1 to 65533"),
    ],
)
def test_the_example_reports_in_one_line_why_it_can_t_start(
    tmp_path: Path, words: tuple[str, ...], status: int, line: str
) -> None:
    file = tmp_path / "file"
    file.touch()
    done = python(tmp_path, "-m", "example_app", *(word.format(file=file) for word in words))
    assert (done.status, done.out) == (status, "")
    assert line in done.err.splitlines()[-1]
    assert "Traceback" not in done.err
