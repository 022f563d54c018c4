"""Which GPUs work best together?"""
