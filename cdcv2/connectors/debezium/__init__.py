"""Debezium's records as facts: ``envelope``, ``images`` of changes, its transaction topic, its types of PostgreSQL."""
