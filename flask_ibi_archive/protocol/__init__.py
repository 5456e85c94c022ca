"""The protocol between Archives and resolvers ([R] 4 to 7), without clock, database or network."""
