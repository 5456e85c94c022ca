"""Identifiers (IBI): their grammar, their generation and their decoding.

An identifier has one of three forms:

- ``rep``: a repository name, such as ``sid.inpe.br/mtc-m18@80/2009/02.16.17.46``;
- ``ibip``: a short code, the IBIp, such as ``8JMKD3MGP8W/34PGRBS``;
- ``legacy``: an identifier that is older than the standard. Nothing can be decoded from it.

In the first two forms, the prefix names the server that assigned the identifier, and the suffix is
the date of the assignment. One item may have two identifiers: a repository name, and an IBIp or a
legacy identifier.

- The module ``grammar`` contains the pattern of each form, and the canonical case of an identifier.
  It builds identifiers from a server and a date, and decodes the prefix and the suffix of an IBIp.
- The module ``parse`` parses a text as an identifier of any form, explains what is wrong with other
  texts, suggests a repair, and decodes an identifier into server and date.
- The module ``dates`` chooses the dates of new suffixes, and converts dates.
- The module ``foreign`` parses identifiers of other systems (DOI, Handle, ARK, URN) and the former
  addresses of items.

All other packages use this package. The functions of this package need neither a clock nor a
network.

Source: [G], chapters 5 to 7.
"""
