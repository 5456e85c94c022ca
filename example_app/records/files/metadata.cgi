The repository of the report answered this address with a program; the example's app answers it with the metadata page.
