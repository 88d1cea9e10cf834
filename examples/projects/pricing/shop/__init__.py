"""Prices orders."""
