"""The command ``export-map``: writes the places of all items to static files."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from flask_ibi_archive.resolver.commands import get_resolver
from flask_ibi_archive.server.commands import terminal


@click.command("export-map")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def export_map_command(folder: Path) -> None:
    """Write where all persistent URLs lead to static files.

    With the files in FOLDER, any web server can lead readers to the Archives if no resolver is
    left: FOLDER/nginx contains a map for nginx, and FOLDER/html contains a page for each name. The
    names and their places are those in the claims that the resolver has read. A name leads to the
    Archive that claims it last as Original. The files of an earlier run are replaced when the new
    ones are complete.

    \b
    Example:
      flask --app example_app:create_resolver ibi-resolver export-map /srv/ibi-map
    """
    from flask_ibi_archive.resolver.claims.static_map import export_map

    resolver = get_resolver()
    terminal.standard_output()
    with terminal.Bars(read="Reading claims", written="Writing names") as bars:
        counts = export_map(
            resolver, folder, partial(bars.show, "read"), partial(bars.show, "written")
        )
    terminal.write(f"{counts.names} names, {counts.pages} pages, {counts.left_out} left out")
