"""The parts that Archives and resolvers share.

- ``config``: the settings, also those of Archives. ``start``: what both extensions do at the start.
- ``database``: connections and migrations. ``http``: requests to other servers.
- ``web``: pages and answers. ``commands``: options and output. ``mail``: e-mails.
- ``atomic_files``: files that are complete or absent, also after a crash.
"""
