"""Small durable values: numbered files, files that are put only where none is; clients of Kafka and PostgreSQL."""
