"""The Dockerfile of the page about containers belongs to the package and to the page."""

from __future__ import annotations

import re

from support.documentation import FILES, commands


def test_the_image_has_a_python_of_the_package_and_the_page_names_its_volume() -> None:
    version = re.search(r"python:3\.(\d+)-slim", FILES["Dockerfile"])
    assert version
    assert int(version[1]) >= 10
    [volume] = re.findall(r"^VOLUME (.*)$", FILES["Dockerfile"], re.MULTILINE)
    assert any(f"--volume repository:{volume}" in line for line in commands("howto/container.rst"))
