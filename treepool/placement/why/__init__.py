"""Why that, or why not?"""
