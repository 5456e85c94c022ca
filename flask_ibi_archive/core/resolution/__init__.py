"""The resolution of persistent URLs: converts answers of Archives to a redirect or an alert.

This package uses no database, clock or network. The resolver uses this package with the answers of
all Archives. An Archive uses this package with its own answers. Source: [R] 6, 8.

Terms of the standard:

relation
    A path from an item to another item. For example, ``.lastedition.metadata(oai_dc)`` leads to the
    metadata of the last edition, in the format ``oai_dc``. The empty relation leads to the item
    itself.
step
    One part of a relation: a last edition, a translation or metadata.
verb
    The name of a step in a request, such as ``GetMetadata(oai_dc)``.
URL list
    The answer of an Archive to a request about an item. The answer is a list of pairs; each pair
    has a name and a value. For example, the value of ``url.metadata`` is the URL of the metadata.
form
    One spelling of an identifier (IBI). The two forms are the repository name and the IBIp; an item
    has one form or both.
"""
