"""Which ids would the job take on a node in this state?"""
