"""The resolution of persistent URLs: from the answers of Archives to a redirect or an alert.

This package uses no database, clock or network. The resolver uses it with the answers of all
Archives, and an Archive with its own answers. Source: [R] 6, 8.

Terms of the standard:

relation
    A path from an item to another item, such as ``.lastedition.metadata(oai_dc)``: the metadata,
    in the format ``oai_dc``, of the last edition. The empty relation leads to the item itself.
step
    One part of a relation: a last edition, a translation or metadata.
verb
    The name of a step in a request, such as ``GetMetadata(oai_dc)``.
URL list
    The answer of an Archive to a request about an item: pairs of a name and a value, such as
    ``url.metadata`` with the URL of the metadata.
form
    An identifier (IBI) has one or two forms: a repository name and an IBIp.
"""
