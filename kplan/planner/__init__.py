"""Questions and their answers: place, plan, and what stands on them."""
