"""The system `utility_fair`: devices that choose power and iterations by utility (Alvi, Hong and Durrani)."""
