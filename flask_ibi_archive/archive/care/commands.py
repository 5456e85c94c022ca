"""The commands verify and check-links."""

from __future__ import annotations

import sys
from functools import partial

import click

from flask_ibi_archive.server.commands import group, terminal


@click.command("verify")
@click.option(
    "--prune", is_flag=True, help="Delete stored files that no item has needed for a day."
)
@group.json_option
def verify_command(prune: bool, as_json: bool) -> None:
    """Check the stored files against their checksums.

    Also checks the log of claims: its entries, hashes and size, and whether the last claims fit the
    items.

    Writes one line for each file that is missing or damaged: which of both, the IBI of the item,
    the path of the file, and the path of the stored file. Restore the stored file from a backup, or
    add the file to the item again. Errors in the log of claims begin with "claims". The exit status
    is 1 if there is a line. On a terminal, the command also says how many stored files no item
    needs.

    Each database needs a folder of files of its own: --prune deletes what the items of this
    database do not need.

    \b
    Example:
      flask --app example_app ibi verify
    """
    from flask_ibi_archive.archive.care import verification

    archive = group.get_archive()
    group.note_host_items(archive, "verified")
    terminal.standard_output()
    database, files, archive_id = archive.database, archive.files_folder, archive.served().id
    faults = []
    with terminal.Bars(files="Verifying", claims="Verifying claims") as bars:
        for fault in verification.find_faults(
            database, archive_id, files, partial(bars.show, "files")
        ):
            faults.append(fault)
            bars.clear()
            if not as_json:
                terminal.write("\t".join(fault))
        errors = archive.claims.verify(partial(bars.show, "claims"))
    verification.store_faults(database, archive_id, faults, archive.clock())
    unneeded = verification.find_unneeded(database, files, archive.clock(), prune)
    if as_json:
        found = [fault._asdict() for fault in faults]
        terminal.write_json({"faults": found, "claims": errors, "unneeded": len(unneeded)})
    else:
        for error in errors:
            terminal.write(f"claims\t{error}")
        if sys.stderr.isatty():
            deletion = "deleted" if prune else "verify --prune deletes them"
            terminal.say(
                f"{len(faults)} files are missing or damaged; "
                f"{len(unneeded)} stored files that no item needs ({deletion})"
            )
    if faults or errors:
        raise click.exceptions.Exit(1)


@click.command("check-links")
@group.json_option
def check_links_command(as_json: bool) -> None:
    """Check that the addresses on other servers still answer.

    Checks the addresses of files and metadata. Writes one line for each that does not work: the
    address, the reason, and the items that use it, separated by tabs. The exit status is 1 if there
    is a line. Nothing is stored. A server may be down for an hour: check again before you change an
    item.

    Each address is requested once, and a host gets one request at a time. Internal hosts are only
    asked if IBI_INNER_HOSTS names them. The command does not read robots.txt, because the Archive
    shows the same addresses to its readers.

    \b
    Example:
      flask --app example_app ibi check-links
    """
    from flask_ibi_archive.archive.care import links

    archive = group.get_archive()
    group.note_host_items(archive, "checked")
    terminal.standard_output()
    found = links.read_links(archive.database, archive.served().id)
    broken = []
    with terminal.Bars(addresses="Checking") as bars:
        for link in links.find_broken(
            found,
            archive.config.base_url,
            archive.config.inner_hosts,
            partial(bars.show, "addresses"),
        ):
            broken.append(link)
            bars.clear()
            if not as_json:
                terminal.write("\t".join([link.url, link.error, ", ".join(link.items)]))
    if as_json:
        terminal.write_json([link._asdict() for link in broken])
    if broken:
        raise click.exceptions.Exit(1)
