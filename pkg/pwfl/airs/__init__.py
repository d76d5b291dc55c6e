"""Air interfaces for systems with base stations and users, each a function from `air.Sent` to `air.Received`."""
