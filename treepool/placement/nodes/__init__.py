"""What are the nodes, what is free on them, and which of them are alike?"""
