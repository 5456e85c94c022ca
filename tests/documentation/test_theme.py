"""The page about themes lists each CSS variable and the blocks of each template."""

from __future__ import annotations

import re

from support.commands import ROOT
from support.documentation import read, rows

PAGE = "howto/theme.rst"
SERVER_PAGES = ROOT / "flask_ibi_archive/server/web"
#: The default of the fonts is a list; the page says what it is.
FONTS = "--ibi-font"


def names(cell: str) -> list[str]:
    """Return the names in a cell of a table, in their order."""
    return re.findall(r"``([^`]+)``", cell)


def test_the_page_lists_the_variables_of_the_stylesheet_with_their_defaults() -> None:
    style = (SERVER_PAGES / "static/ibi.css").read_text(encoding="utf-8")
    light, dark = re.findall(r":where\(\.ibi-site\) \{([^}]*)\}", style)
    default = dict(re.findall(r"(--ibi-[\w-]+): ([^;]+);", light))
    in_dark_mode = dict(re.findall(r"(--ibi-[\w-]+): ([^;]+);", dark))
    assert set(re.findall(r"--ibi-[\w-]+", style)) == set(default)
    table = rows(read(PAGE), "variable")
    assert [names(row[0]) for row in table] == [[name] for name in default]
    for row in table:
        [name] = names(row[0])
        if name != FONTS:
            assert names(row[1]) == [default[name]], name
        assert (
            names(row[2]) == [in_dark_mode[name]] if name in in_dark_mode else row[2] == "the same"
        )


def test_the_page_lists_the_blocks_of_each_template() -> None:
    listed = {names(row[0])[0]: names(row[2]) for row in rows(read(PAGE), "template")}
    blocks = {
        path.stem: re.findall(r"\{%-? *block (\w+)", path.read_text(encoding="utf-8"))
        for path in (SERVER_PAGES / "templates/ibi_archive/default").glob("*.html")
    }
    common = {*blocks["page"], "ibi_heading", "ibi_links"}
    own = {name: [one for one in found if one not in common] for name, found in blocks.items()}
    assert listed == {name: found for name, found in own.items() if found}
