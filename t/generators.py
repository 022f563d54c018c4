"""Work that is a generator, run to its end."""


def outcome(work):
    """What a generator returns at its end."""
    while True:
        try:
            next(work)
        except StopIteration as stop:
            return stop.value
