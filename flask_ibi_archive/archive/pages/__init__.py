"""The pages of an item: landing page, files, metadata; lists for crawlers.

- ``landing``: the landing page, and its parts for templates of hosts.
- ``files``, ``zip``: the list of the files, a file, and all files as one ZIP file.
- ``metadata``: the metadata in all formats, and the links that programs follow.
- ``lists``: the items by year, the newest items, and the sitemap.
- ``labels``: names of types, roles and relations for readers.
"""
