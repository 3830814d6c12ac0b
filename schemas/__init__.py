"""The format on the wire, for any language: Avro schemas and what their fields mean; installed as ``cdcv2.schemas``."""
