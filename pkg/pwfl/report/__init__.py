"""What the reports of several systems share: theme, claims, and the comparison of scenarios and systems."""
