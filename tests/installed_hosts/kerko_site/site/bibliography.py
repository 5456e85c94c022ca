"""A bibliography with Kerko whose items are items of the Archive."""

import kerko
from deposits import deposit_items, ibi
from flask import Flask
from flask_babel import Babel
from flask_bootstrap import Bootstrap4
from kerko.cli import cli
from kerko.composer import Composer
from kerko.config_helpers import config_update, parse_config


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
    app.cli.add_command(deposit_items)
    ibi.init_app(app)
    return app
