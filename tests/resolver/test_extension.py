"""The resolver's commands as found by the entry point, and the example's resolver."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from example_app.__main__ import main

#: Uses a resolver, and prints whether the modules of the document registry are loaded.
USE = """
import sys
from flask import Flask
from flask_ibi_archive.resolver import IBIResolver

folder, registry, *commands = sys.argv[1:]
app = Flask("resolver", instance_path=folder)
app.config["IBI_RESOLVER_DATABASE_URI"] = f"sqlite:///{folder}/resolver.sqlite"
app.config["IBI_RESOLVER_REGISTRY"] = registry == "True"
app.config["IBI_MINT_HOST"] = "registry.urlib.net"
IBIResolver(app)
for command in commands:
    assert app.test_cli_runner().invoke(args=["ibi-resolver", command]).exit_code == 0
assert app.test_client().get("/8JMKD3MGP8W/35MME4E").status_code in (404, 503)
print(any(".registry_2008" in name for name in sys.modules))
"""


@pytest.mark.slow
@pytest.mark.parametrize("registry", [False, True])
def test_the_document_registry_is_loaded_only_if_it_is_enabled(
    tmp_path: Path, registry: bool
) -> None:
    """The migration of ``init`` needs all tables, also those of the registry."""

    def use(*commands: str) -> str:
        words = [sys.executable, "-c", USE, str(tmp_path), str(registry), *commands]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout

    use("init")
    assert use("check", "list") == f"{registry}\n"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--folder", "{file}/data"), "Error: IBI_RESOLVER_DATABASE_URI is 'sqlite:///"),
        (("--port", "65534"), "argument --port: 65534 is not from 1 to 65533"),
    ],
)
def test_the_example_reports_in_one_line_why_it_can_t_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], line: str
) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(SystemExit) as ended:
        main([word.format(file=file) for word in words])
    output = capsys.readouterr()
    # Python prints an exit code that is a text
    text = ended.value.code if isinstance(ended.value.code, str) else output.err.splitlines()[-1]
    assert line in text
    assert "\n" not in text
    assert output.out == ""
