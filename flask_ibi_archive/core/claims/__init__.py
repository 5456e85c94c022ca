"""Claims: what an Archive says it holds, as a signed list that only grows.

The list is a tiled transparency log. Sources: RFC 6962, section 2.1 (the Merkle tree), and the C2SP
specifications tlog-tiles, signed-note, tlog-checkpoint and tlog-cosignature.
"""
