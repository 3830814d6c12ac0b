"""What the records of a source mean: how its topics are read, and which facts its records are."""
