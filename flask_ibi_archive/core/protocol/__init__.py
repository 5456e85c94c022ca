"""The messages between Archives and resolvers: parsing, formatting, and the answer of an Archive.

A resolver sends a request to an Archive as a URL with a query. The answer is a list of pairs. Each
pair has a name and a value. Archives and resolvers use this package. The package uses no clock, no
database and no network.

- ``pairs``: the text of queries and of answers.
- ``messages``: the requests of a resolver to an Archive, and the answer of the Archive.
- ``inclusion``: the registration of an Archive with a resolver: keys, e-mails and requests.
- ``relations``: relations such as ``.lastedition``, the verbs that request them, and the targets
  that they have for an item.
- ``url_list``: the answer to a urlRequest: which relations it contains, and the URL of each target
  (page, file, list of files or metadata). ``catalogue_items``: the items that it describes.
- ``states``: the states of an item, and the transitions between them.
- ``hosts``: checks of URLs, hosts and IP addresses. ``languages``: the choice of a language.

Source: [R], chapters 4, 5 and 7.
"""
