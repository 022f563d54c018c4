"""The code that talks to Flux: only this package imports ``flux``, and only when it is needed."""
