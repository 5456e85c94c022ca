"""An Archive in a Flask app. Each package is a subject with its operations, pages and commands.

- ``items``: the tables of items, and the operations that read and change items.
- ``pages``: the pages of an item, and the lists for crawlers.
- ``service``: the answers to resolvers, and the redirects of persistent URLs.
- ``accesses``: the counts of accesses to items, and the statistics.
- ``harvest``: the interface for harvesters (OAI-PMH).
- ``hosts``: items that follow rows of the host, and hosts that have a catalogue of their own.
- ``moving``: moves and copies of items to Archives on other servers.
- ``joining``: the registration of the Archive with a resolver.
- ``identification``: the server from which programs get identifiers.

The modules of this folder use several subjects:

- ``archive``: the class :class:`.Archive`, whose methods are the operations of the subjects.
- ``routing``: the Flask blueprint with the routes of all subjects.
- ``librarian``, ``librarian_forms``: the page where librarians change items.
- ``claims``: the signed list of the items that the Archive has, for resolvers.
- ``checking``, ``care``: the checks of the Archive, of its stored files and of links.
- ``commands``: the commands ``flask ibi`` for the Archive as a whole.
"""
