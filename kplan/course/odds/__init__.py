"""The same question many times, with other random draws."""
