"""cdcv2: change-data capture and replay, with proof that all of it arrived."""
