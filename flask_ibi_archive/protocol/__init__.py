"""The protocol between Archives and resolvers. Pure: no clock, no database, no network ([R] 4 to
7).
"""
