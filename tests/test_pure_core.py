"""The pure core reads no clock and opens no file (import-linter checks its imports)."""

from __future__ import annotations

import ast

from support.commands import ROOT


def test_the_pure_core_asks_no_clock_and_opens_no_file() -> None:
    paths = [*(ROOT / "flask_ibi_archive" / "core").rglob("*.py")]
    assert len(paths) > 30
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                call = ast.unparse(node.func)
                clock = call.endswith((".now", ".utcnow", ".today"))
                assert not clock, f"{path}:{node.lineno} calls {call}"
                assert call != "open", f"{path}:{node.lineno} opens a file"
