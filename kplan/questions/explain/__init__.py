"""Why is this pod there, or pending."""
