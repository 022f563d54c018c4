"""Placement: the locality tree, what is free on it, and which ids a request takes from it."""
