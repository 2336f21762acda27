"""The search for what lets pending pods run: candidates, trials of them, and the least set that does all."""
