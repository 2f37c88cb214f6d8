"""A node as a member of its cluster: membership, live figures, votes on upstream servers, block list."""
