"""The grammar, the generation and the decoding of identifiers.

An identifier (IBI) has two forms. One form is a repository name such as
``sid.inpe.br/mtc-m18@80/2009/02.16.17.46``. The other form is a short code (IBIp) such as
``8JMKD3MGP8W/34PGRBS``. In both forms, the prefix names the server that assigns the identifier. The
suffix is the date of the assignment.

All other packages use this package. The functions of this package need neither a clock nor a
network.

Source: [G], chapters 5 to 7.
"""
