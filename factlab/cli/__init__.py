"""The command `factlab`."""
