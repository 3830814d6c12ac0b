"""Topics of Kafka, written in transactions."""
