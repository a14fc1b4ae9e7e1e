"""The redelivery lab: four small files that make a second delivery harmless. Start with README.md."""
