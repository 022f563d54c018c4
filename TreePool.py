"""Flux imports the module that an R's ``scheduling.writer`` names: RFC 49 calls it TreePool."""

from treepool.flux.pool import pool_class

__all__ = ["pool_class"]
