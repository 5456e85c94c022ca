"""The identification server: gives identifiers to programs, and deposits items for them.

- ``server``: the operations of a program, and the views at ``/ibi/identifiers``.
- ``keys``: creates, finds and revokes the keys of programs.
- ``commands``: the command ``api-key``.
"""
