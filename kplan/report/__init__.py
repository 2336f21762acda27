"""What kplan prints: results turned into text and documents."""
