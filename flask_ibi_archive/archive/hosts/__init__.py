"""Two ways to use the data of a host: items that follow its rows, and a catalogue of its own.

Items that follow the rows of the host's own models (a copy of the data is in our tables):

- ``models``: the mixin :class:`.IdentifiedItem`, and what identifies a row.
- ``flush``: changes items when a session of the host writes rows.
- ``row_writer``: compares the items of rows with the rows, and writes what differs.
- ``sync``: compares all rows of a model with their items, and repairs the differences.
- ``commands``: the commands ``adopt`` and ``compare``.

A host that keeps all data in its own tables:

- ``host_catalogue``: the class :class:`.RecordCatalogue`, from which the Archive reads items.
"""
