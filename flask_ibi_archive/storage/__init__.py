"""The database and the folder of stored files of an Archive, with SQLAlchemy and without Flask."""
