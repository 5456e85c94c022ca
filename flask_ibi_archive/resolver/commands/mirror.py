"""The command ``mirror``: takes over the list of Archives of another resolver."""

from __future__ import annotations

import re

import click

from flask_ibi_archive.core.claims.keys import TIMESTAMPED, parse_key
from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.errors import ClaimError
from flask_ibi_archive.resolver.commands import get_resolver
from flask_ibi_archive.server.commands import terminal

_is_base = re.compile(r"https?://[A-Za-z0-9.:\[\]-]+(?:/[A-Za-z0-9._~/-]*)?").fullmatch


@click.command("mirror")
@click.argument("url", required=False)
@click.option("--key", metavar="VKEY", help="The public key of the other resolver.")
@click.option(
    "--accept-key", is_flag=True, help="Accept the key that the other resolver sends, unseen."
)
@click.option("--stop", is_flag=True, help="Take over no more lists.")
def mirror_command(url: str | None, key: str | None, accept_key: bool, stop: bool) -> None:
    """Take over the included Archives of another resolver.

    URL is the address of the other resolver. It signs the list of its Archives. If --key is
    missing, the command shows the key that the other resolver sends, and asks whether it is the
    right one: compare it with the key that its administrator has told you, who finds it at
    /ibi/claims/witness/key of that resolver. Later lists must be
    signed with this key, too. The process that reads the claims takes over the list each minute.
    Archives that the other resolver excludes are excluded here. Archives that registered with this
    resolver itself are not changed.

    Without URL, the command shows the other resolver. After --stop, the Archives that were taken
    over remain.

    \b
    Example:
      flask --app example_app:create_resolver ibi-resolver mirror https://urlib.net
      flask --app example_app:create_resolver ibi-resolver mirror --stop
    """
    from flask_ibi_archive.resolver.claims import mirror

    resolver = get_resolver()
    terminal.standard_output()
    if stop:
        mirror.stop_mirror(resolver)
        return
    if url is None:
        first = resolver.database.read(mirror.find_first)
        if first is not None:
            terminal.write(f"url\t{first.url}")
            terminal.write(f"key\t{first.key.format(TIMESTAMPED)}")
            terminal.write(f"list of\t{format_timestamp(first.list_time) or ''}")
            terminal.write(f"checked at\t{format_timestamp(first.checked_at) or ''}")
        return
    if not _is_base(url):
        raise click.BadParameter(f"{url!r} is not an address such as https://urlib.net")
    url = url.rstrip("/")
    if key is None:
        verifier = mirror.fetch_key(url, resolver.config)
        # in the form in which the other resolver publishes it
        terminal.say(f"{url} sends this key:\n{verifier.format(TIMESTAMPED)}")
        terminal.confirm("Is this the right key?", accept_key, "--accept-key")
    else:
        try:
            verifier = parse_key(key)
        except ClaimError as error:
            raise click.BadParameter(str(error), param_hint="--key") from error
    takeover = mirror.start_mirror(resolver, url, verifier)
    terminal.write(f"{takeover.archives} Archives, {takeover.changed} of them changed")
