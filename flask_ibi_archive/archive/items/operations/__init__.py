"""Operations on the items of an Archive: deposit, edit, copy, transfer, delete, reserve.

The functions whose first argument is the Archive are methods of Archive. Their argument ``ibi`` can
be either form of an identifier, in upper or lower case; or an object with an ``ibi``, such as the
result of ``deposit`` or an ItemView. Each operation is a transaction. If the host has a session,
the operation is a savepoint in the transaction of the host instead. An operation that raises an
exception changes nothing. The exceptions are UnknownItem, RuleBroken (with the number of a rule of
:mod:`flask_ibi_archive.archive.items.rules`) and other StorageErrors.
:data:`flask_ibi_archive.core.protocol.states.TRANSITIONS` lists the operations that each state of
an item allows.
"""
