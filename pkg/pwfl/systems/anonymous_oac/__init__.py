"""The system `anonymous_oac`: anonymous over-the-air computation (Hasircioglu and Gunduz)."""
