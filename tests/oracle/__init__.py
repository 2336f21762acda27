"""What each plugin says, node by node in plain Python over JSON objects, sharing no code with kplan."""
