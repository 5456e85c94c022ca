"""The resolution of persistent URLs: turns the answers of Archives into a redirect or an alert.

This package uses no database, clock or network. The resolver passes the answers of all Archives to
this package. An Archive passes only its own answers. Source: [R] 6, 8.

- The module ``persistent_url`` parses and formats persistent URLs.
- The module ``former_links`` reads other links to items: foreign identifiers, former addresses.
- The module ``answer`` checks the answer of an Archive, and extracts URLs and identifiers.
- The module ``choice`` chooses among the answers of all Archives: the rules of a resolution.
- The module ``outcome`` contains the results: redirects, alerts with their HTTP status, and
  alternatives.

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
    One kind of identifier (IBI): a repository name, an IBIp, or a legacy identifier
    (:mod:`flask_ibi_archive.core.identifiers`). An item may have a repository name and one of the
    other two.
"""
