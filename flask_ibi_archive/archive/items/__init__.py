"""Items: their tables, one way to read them, the operations that change them.

- ``rules``: the eight rules of the storage model. Read this module first.
- ``tables``: the tables.
- ``minting``: issues new identifiers, none of them twice.
- ``item_record``: checks what a caller states about an item.
- ``operations``, ``transfers``: the public operations, such as deposit, edit and delete.
- ``write``, ``stored_relations``: store items, and the relations between items.
- ``read``: reads items as records and views.
- ``ownership``: finds the item that has an identifier, a key or a former address.
- ``changes``: the change log, from which harvesters and resolvers learn what has changed.
- ``files``: the folder with the stored files.
- ``access``: decides whether a user may read the files of an item.
- ``item_pages``: what all pages about an item have in common.
- ``sessions``: joins the transaction of the host.
- ``served_archives``: creates and finds the Archives of a database.
- ``import_export``: imports and exports many items.
- ``commands``: the commands for items.
"""
