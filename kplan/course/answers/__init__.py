"""Parts that the answers of several questions share."""
