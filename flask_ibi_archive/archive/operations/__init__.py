"""Operations on the items of an Archive: deposit, edit, copy, transfer, delete."""
