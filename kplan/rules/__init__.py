"""What objects mean to scheduling: requests, affinity terms, volumes and their CSI drivers. No columns."""
