"""What a pipeline looks like in numbers: the model first, then how it is measured, then the text for Prometheus."""
