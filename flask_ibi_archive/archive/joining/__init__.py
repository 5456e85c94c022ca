"""Register an Archive with a resolver ([R] 5).

- ``registration``: sends the requests, reads the answers, and stores the state.
- ``commands``: the commands ``generate-key``, ``register-archive`` and others.
"""
