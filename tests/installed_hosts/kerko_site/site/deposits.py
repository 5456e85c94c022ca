"""The Archive of the bibliography, and the command that deposits its items."""

import click
from flask.cli import with_appcontext
from kerko.searcher import Searcher
from kerko.shortcuts import composer
from kerko.storage import get_storage_dir, load_object, open_index, save_object
from kerko.views.item import get_item_title
from kerko.views.item.creators import format_creator_name

from flask_ibi_archive import IBIArchive, ItemRecord

ibi = IBIArchive()


def describe(item):
    data, folder = item["data"], get_storage_dir("attachments")
    return ItemRecord(
        title=get_item_title(item),
        creators=[format_creator_name(creator) for creator in data.get("creators", ())],
        language=data.get("language") or None,
        files=[(a["data"]["filename"], folder / a["id"]) for a in item.get("attachments", ())],
        metadata={"dc": {"date": data.get("date", ""), "identifier": f"zotero:{item['id']}"}},
    )


@click.command("deposit-items")
@with_appcontext
def deposit_items():
    """Let the Archive follow the bibliography: run this after each ``flask kerko sync``."""
    items = ibi.archive.find(state="Original")
    known = {item.dublin_core["identifier"][0][0]: item.ibi for item in items}
    last = load_object("ibi", "version", default=0)
    with Searcher(open_index("index")) as searcher:
        found = searcher.search(reject_any={"item_type": ["note", "attachment"]}, faceting=False)
        for item in found.items(composer().fields):
            identifier = known.pop(f"zotero:{item['id']}", None)
            if identifier is None:
                ibi.archive.deposit(describe(item))
            elif item["data"]["version"] > last:
                ibi.archive.edit(identifier, **describe(item))
    for identifier in known.values():
        ibi.archive.delete(identifier, "removed from the bibliography")
    save_object("ibi", "version", load_object("index", "version"))
