"""Airs that any schedule of a system with stations and users can send over: what comes out of `air.Sent`."""
