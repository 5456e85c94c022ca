"""Register an Archive with a resolver ([R] 5).

First the administrator sends an e-mail with a registration key to the resolver. Then the Archive
sends an inclusion request. After the inclusion, the resolver asks the Archive about items. After an
exclusion request, the resolver does not ask the Archive any more.
"""
