"""Specifications of the services beside the ordering stack."""
