"""Takes in files of records: in passes, in bounded memory, all of it or step by step."""
