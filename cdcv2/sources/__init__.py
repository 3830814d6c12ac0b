"""What the records of a source mean, and when what they say is complete.

``debezium`` turns records into facts, ``commits`` decides on counts which transactions are whole, ``capture`` holds
the rows and writes one log per table. ``said`` is what a fact comes to on a timeline of bindings.
"""
