"""What a newcomer runs first: a bank at work, and the road that its money takes."""
