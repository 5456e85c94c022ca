from ckan import model
from ckan.plugins import get_plugin

for dataset in model.Session.query(model.Package):
    get_plugin("ibi").edit(dataset)

model.Session.commit()
