"""Requests to a web server."""
