"""What touches Flux: the only room that imports ``flux``, and only when something needs it."""
