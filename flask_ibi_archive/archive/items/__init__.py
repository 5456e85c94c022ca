"""Items: their tables, one way to read them, the operations that change them."""
