"""Whether a command runs in this process, or a server."""

from __future__ import annotations

import click
from flask.cli import AppGroup

#: The command of Flask that serves the app.
RUN = "run"


def in_a_command() -> bool:
    """Tell whether a command of Flask's runs here that does not serve the app: flask ibi, flask
    shell.
    """
    context = click.get_current_context(silent=True)
    if context is None or not isinstance(context.find_root().command, AppGroup):
        return False
    root = context.find_root()
    while context.parent is not None and context.parent is not root:
        context = context.parent
    return context is root or context.info_name != RUN
