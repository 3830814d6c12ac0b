"""Directories of Parquet files with a manifest."""
