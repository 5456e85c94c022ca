"""The command ``export-map``: writes where persistent URLs lead as a map for nginx."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from flask_ibi_archive.resolver.commands import get_resolver
from flask_ibi_archive.server.commands import terminal


@click.command("export-map")
@click.argument("path", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
def export_map_command(path: Path) -> None:
    """Write where all persistent URLs lead as a map for nginx.

    With FILE, an nginx can lead readers to the Archives if no resolver is left. The first lines of
    FILE say how to include it. The names and their places are those in the claims that the resolver
    has read. A name leads to the Archive that claims it last as Original. An earlier FILE is
    replaced when the new one is complete.

    \b
    Example:
      flask --app example_app:create_resolver ibi-resolver export-map /etc/nginx/ibi.conf
    """
    from flask_ibi_archive.resolver.old_claims.static_map import export_map

    resolver = get_resolver()
    terminal.standard_output()
    with terminal.Bars(read="Reading claims", written="Writing names") as bars:
        counts = export_map(
            resolver, path, partial(bars.show, "read"), partial(bars.show, "written")
        )
    terminal.write(f"{counts.names} names, {counts.left_out} left out")
