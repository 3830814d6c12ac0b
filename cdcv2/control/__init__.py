"""What should exist, as files state it: a materialization, a whole pipeline."""
