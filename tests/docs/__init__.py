"""What the guides show is run."""
