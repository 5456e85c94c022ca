"""Renews the screenshots of the documentation: ``python tools/screenshots.py``.

The example runs in a temporary folder, and Chromium opens its pages, in each language of the
documentation. Sphinx chooses the image of its language: ``landing.png`` or ``landing.pt_BR.png``.
"""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from shutil import which

import requests
from flask import Flask
from playwright.sync_api import ViewportSize, sync_playwright

from example_app.__main__ import Example, run
from example_app.seed import FILES, PASSWORD

IMAGES = Path(__file__).parents[1] / "docs/images"
#: The language of the pages, and the end of the names of the images, for each documentation.
LANGUAGES = {"en": "", "pt-BR": ".pt_BR"}
#: The first port of the example (docs/try-the-example.rst); it is in the images.
PORT = 5000
SIZE = ViewportSize(width=1280, height=900)
THESIS = {
    "title": "Nuvens de gelo sobre a bacia amazônica",
    "creators": "Silva, Ana (0000-0002-1825-0097)",
    "advisors": "Souza, Davi",
    "type": "doctoral thesis",
    "issued": "2025-04-01",
    "degree_level": "doctoral",
    "programme": "Sensoriamento Remoto",
    "institution": "Universidade do Vale",
    "defended": "2025-03-14",
    "abstract[pt]": "Doze anos de medidas de lidar mostram com que frequência nuvens de gelo se "
    "formam sobre a bacia amazônica, e como elas mudam o balanço de radiação.",
    "abstract[en]": "Twelve years of lidar measurements show how often ice clouds form over the "
    "Amazon basin, and how they change the balance of radiation.",
    "subjects": "nuvens de gelo; lidar; Amazônia",
    "licence": "CC-BY-4.0",
    "language": "pt-BR",
    "files": "nuvens-de-gelo.pdf",
}


def import_thesis(app: Flask, folder: Path) -> str:
    """Import the thesis, which gets a page of the extension, and return its IBI."""
    (folder / THESIS["files"]).write_bytes((FILES / THESIS["files"]).read_bytes())
    with (folder / "works.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([THESIS.keys(), THESIS.values()])
    new = folder / "identifiers.csv"
    run(app, f"ibi import {folder}/works.csv --mint --identifiers {new}")
    with new.open(encoding="utf-8-sig", newline="") as file:
        [row] = csv.DictReader(file)
    return row["ibip"]


def find_removed(app: Flask) -> str:
    """Return the IBI of an item of the example that was withdrawn."""
    listed = app.test_cli_runner().invoke(args=["ibi", "list", "--state", "Deleted"]).stdout
    return listed.splitlines()[-1].split("\t")[1]


def read_often(url: str) -> None:
    """Open a persistent URL as several readers, so that there is something to count."""
    for number in range(40):
        agent = f"Mozilla/5.0 (X11; Linux x86_64; rv:{100 + number}.0) Firefox/{100 + number}.0"
        modifier = ":" if number % 3 else ""
        requests.get(url + modifier, headers={"User-Agent": agent}, timeout=60)


def take(example: Example, pages: Mapping[str, str]) -> Iterator[Path]:
    """Write an image of each page in each language, and yield the paths."""
    home = f"http://{example.addresses[0]}"
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=which("chromium"), args=["--no-sandbox"])
        for language, end in LANGUAGES.items():
            page = browser.new_page(locale=language, viewport=SIZE)
            page.goto(f"{home}/login")
            page.fill("[name=name]", "librarian")
            page.fill("[name=password]", PASSWORD)
            page.press("[name=password]", "Enter")
            page.wait_for_url(lambda url: not url.endswith("/login"))
            for name, address in pages.items():
                page.goto(f"{home}{address}")
                path = IMAGES / f"{name}{end}.png"
                page.screenshot(path=path)
                yield path
            page.close()
        browser.close()


def main() -> None:
    """Run the example, and photograph its pages."""
    with tempfile.TemporaryDirectory() as name:
        example = Example(Path(name), PORT)
        with example.serving():
            example.fill()
            example.register()
            app = example.archives[0]
            ibi = import_thesis(app, Path(name))
            run(app, "ibi verify")
            read_often(f"http://{example.resolver_address}/{ibi}")
            pages = {
                "landing": f"/col/{ibi}/",
                "tombstone": f"/col/{find_removed(app)}/",
                "statistics": f"/col/{ibi}/statistics",
                "list": "/ibi/items",
                "librarian": "/admin/ibi",
            }
            for path in take(example, pages):
                print(f"{path.name}: {path.stat().st_size // 1024} kB")


if __name__ == "__main__":
    main()
