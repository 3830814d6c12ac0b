"""The capture on a shared remap, on Spark."""
