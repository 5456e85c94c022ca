"""The service of an Archive: the answers to resolvers, and the redirects of persistent URLs.

- ``archive_service``: receives the messages of resolvers.
- ``catalogue``: finds the item that a urlRequest names, and the related items.
- ``url_keys``: the keys by which the Archive recognises acknowledgments of its own answers.
- ``local_resolution``: resolves persistent URLs without a resolver.
- ``downloads``: sends files, with ranges and conditions.
- ``problems``: answers to programs whose requests cannot be carried out.
"""
