"""Operations on items: each one is a transaction, or a savepoint in the host's."""
