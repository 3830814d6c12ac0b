"""What a capture decides, whichever way it reads and writes: no I/O, no clock."""
