"""A bibliography with Kerko whose items are items of the Archive."""

import click
import kerko
from flask import Flask
from flask.cli import with_appcontext
from flask_babel import Babel
from flask_bootstrap import Bootstrap4
from kerko.cli import cli
from kerko.composer import Composer
from kerko.config_helpers import config_update, parse_config
from kerko.searcher import Searcher
from kerko.shortcuts import composer
from kerko.storage import get_storage_dir, load_object, open_index, save_object
from kerko.views.item import get_item_title
from kerko.views.item.creators import format_creator_name

from flask_ibi_archive import IBIArchive, ItemRecord

ibi = IBIArchive()


def create_app(settings):
    app = Flask(__name__, static_folder=None, instance_path=settings["INSTANCE_PATH"])
    config_update(app.config, kerko.DEFAULTS)
    app.config.update(settings)
    parse_config(app.config)
    app.config["kerko_composer"] = Composer(app.config)
    Babel(
        app,
        default_domain=kerko.TRANSLATION_DOMAIN,
        default_translation_directories=kerko.TRANSLATION_DIRECTORY,
    )
    Bootstrap4(app)
    app.register_blueprint(kerko.make_blueprint())
    app.cli.add_command(cli, "kerko")
    ibi.init_app(app)
    app.cli.add_command(deposit_items)
    return app


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
    known = {
        text: item.ibi
        for item in ibi.archive.find(state="Original")
        for text, _ in item.dublin_core.get("identifier", ())
        if text.startswith("zotero:")
    }
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
