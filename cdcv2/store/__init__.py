"""Small durable values: numbered files, files that are put only where none is; and the clients of Kafka and PostgreSQL."""
