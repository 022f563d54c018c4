"""What people are shown of a pool: pictures, explanations, advice, status, replays, snapshots."""
