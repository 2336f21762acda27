"""The commands: each turns its options into a question, asks it, and prints the answer."""
