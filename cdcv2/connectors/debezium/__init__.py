"""Debezium's records as facts: ``envelope`` and ``images`` of changes, its transaction topic, and its types of PostgreSQL."""
