"""The page that the controller serves: a model first, as plain values, then a tree of elements, then the document."""
