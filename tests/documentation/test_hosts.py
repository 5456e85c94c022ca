"""The page about applications of others states the versions that its tests install."""

from __future__ import annotations

import re

from support.commands import ROOT
from support.documentation import rows


def test_the_table_states_the_versions_that_are_tested() -> None:
    pinned = {}
    for path in (ROOT / "tests/installed_hosts").glob("*_site/requirements.txt"):
        found = re.findall(r"^([\w-]+)\S*==(\S+)$", path.read_text(), re.MULTILINE)
        pinned[path.parent.name.removesuffix("_site")] = ", ".join(map(" ".join, found))
    assert {name.lower(): versions for name, versions in rows("hosts.rst", "application")} == pinned
