"""In which order do nodes drain safely."""
