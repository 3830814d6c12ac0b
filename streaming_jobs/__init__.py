"""Entry points for spark-submit: arguments in, query started, nothing else."""
