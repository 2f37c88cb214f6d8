"""The WebQoS language: from the text of a specification to classes, constraints and shares."""
