"""What does the job ask for?"""
