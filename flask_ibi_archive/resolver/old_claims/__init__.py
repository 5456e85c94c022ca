"""The claims of Archives at the resolver: follower, index, conflicts."""
