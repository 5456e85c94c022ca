from datetime import datetime, timezone

from ckan import plugins
from ckan.lib.munge import munge_filename
from ckan.model import Package, Session
from ckan.plugins.toolkit import add_template_directory, url_for
from sqlalchemy import select

from flask_ibi_archive import CatalogueRecord, FileRecord, IBIArchive, RecordCatalogue, Tombstone

REP, IBIP = (Package.plugin_data["ibi", form].astext for form in ("rep", "ibip"))
PUBLIC = select(Package).where(IBIP.is_not(None), ~Package.private, Package.state != "draft")


class Datasets(RecordCatalogue):
    def record(self, ibi):
        package = Session.scalar(PUBLIC.where((ibi == REP) | (ibi == IBIP)))
        return package and describe(package)

    def records(self):
        return map(describe, Session.scalars(PUBLIC))


def describe(package):
    record = CatalogueRecord(
        **package.plugin_data["ibi"],
        timestamp=package.metadata_modified.replace(tzinfo=timezone.utc),
        title=package.title or package.name,
        creators=package.author or [],
        language=package.extras.get("language"),
        metadata={"dc": {"date": f"{package.metadata_created:%Y-%m-%d}"}},
    )
    if package.state == "deleted":
        reason = package.extras.get("reason for removal", "Removed by the repository.")
        return {**record, "state": "Deleted", "tombstone": Tombstone(reason)}
    names = {munge_filename(each.name or each.id): each.id for each in package.resources}
    return {**record, "files": [describe_file(package.id, *pair) for pair in names.items()]}


def describe_file(package_id, name, resource_id):
    place = {"id": package_id, "resource_id": resource_id, "locale": "default", "qualified": True}
    return FileRecord(name, url=url_for("dataset_resource.download", **place))


ibi = IBIArchive(catalogue=Datasets())


class IBIPlugin(plugins.SingletonPlugin):
    plugins.implements(plugins.IClick)
    plugins.implements(plugins.IConfigurer)
    plugins.implements(plugins.IMiddleware, inherit=True)
    plugins.implements(plugins.IPackageController, inherit=True)

    def update_config(self, config):
        add_template_directory(config, "templates")

    def make_middleware(self, app, config):
        app.config.update({key: value for key, value in config.items() if key.startswith("IBI_")})
        ibi.init_app(app)
        self.app = app
        return app

    def get_commands(self):
        return [ibi.commands(lambda: self.app)]

    def create(self, entity):
        data = entity.plugin_data or {}
        if entity.type == "dataset" and "ibi" not in data:
            with self.app.app_context():
                [minted] = ibi.archive.mint()
            entity.plugin_data = {**data, "ibi": {"rep": minted.rep, "ibip": minted.ibip}}

    edit = create

    def delete(self, entity):
        entity.metadata_modified = datetime.utcnow()

    def after_dataset_show(self, context, pkg_dict):
        if context.get("for_view"):
            data = context["package"].plugin_data or {}
            pkg_dict["ibi"] = data.get("ibi", {}).get("ibip")
