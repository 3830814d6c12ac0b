"""The options that a command and a job on Spark share: declared and judged once."""
