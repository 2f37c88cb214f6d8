"""Semantic checks of a specification: contradictions, conditions that never hold, rules without effect."""
