"""Drivers, one file per foreign system. Each asks for the package that it needs when it is used."""
