"""What vendors' tools print about a node's GPUs: from text to one table, a module for each tool."""
