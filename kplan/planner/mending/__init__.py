"""What to do so that pending pods run: actions, their simulation, and the search for the least set of them."""
