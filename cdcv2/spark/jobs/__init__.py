"""The files that spark-submit is given: each starts one job, and holds nothing else. See ``cdcv2 job-path``."""
