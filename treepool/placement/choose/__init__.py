"""Which nodes does the job get?"""
