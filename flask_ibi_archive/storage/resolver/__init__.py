"""The tables of a resolver: the Archives registered, how they answer, and where IBIs were last found."""
