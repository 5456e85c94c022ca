"""What a persistent URL leads to: pure, without databases, clocks or sockets ([R] 6, 8)."""
