"""The resolver's commands as found by the entry point, and the example's resolver."""

from __future__ import annotations

from pathlib import Path

import pytest

from example_app.__main__ import main


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
