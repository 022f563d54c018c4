"""When does a waiting job start?"""
