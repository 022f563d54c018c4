"""Which nodes, cores and GPUs does a job get, when, and why those, or why none?"""
