"""What a row is: its type, the canonical form of its values, their bytes and names, and what the source calls them."""
