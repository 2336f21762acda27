"""Changes of a cluster that nobody makes: objects added, replaced, removed and scaled."""
