"""Where would pods land."""
