"""What happens to the pods of drained nodes."""
