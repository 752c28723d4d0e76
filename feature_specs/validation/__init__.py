"""Checks of a spec that span its entries."""
