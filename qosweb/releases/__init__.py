"""Site releases: the cluster stores the site itself, and its nodes switch to a new release together."""
