"""An instance with its logs: what :mod:`cdcv2.instances` decides, fed with the finished cuts of real logs."""
