"""The command about the index of claims: rebuild-index."""

from __future__ import annotations

import click

from flask_ibi_archive.resolver.commands import get_resolver
from flask_ibi_archive.server.commands import terminal


@click.command("rebuild-index")
def rebuild_index_command() -> None:
    """Build the index of claims again, from kept claims.

    This is needed if a file of the index was lost or damaged, for example after a restored backup
    of the database. Archives are not asked: all claims that were read and verified are also in
    IBI_RESOLVER_CLAIMS_FOLDER. If some of them are missing there, the claims of this Archive are
    read from the beginning again, and the Archive is asked about every item until then. The
    resolver may go on meanwhile. The command may be run again.

    \b
    Example:
      flask --app example_app:create_resolver ibi-resolver rebuild-index
    """
    from flask_ibi_archive.resolver.old_claims.kept_logs import KeptLogs
    from flask_ibi_archive.resolver.old_claims.rebuilding import rebuild_index

    resolver = get_resolver()
    resolver.database.check_revision()
    kept = KeptLogs(resolver.config.claims_folder / "logs")
    with terminal.Bars(entries="Reading claims") as bars:
        result = rebuild_index(
            resolver.database,
            resolver.claim_index,
            kept,
            lambda done, total: bars.show("entries", done, total),
        )
    for service_ibi, reason in result.lost.items():
        terminal.warn(f"the claims of {service_ibi} will be read again: {reason}")
    terminal.say(f"the index contains {result.entries} claims of {result.logs} Archives")
