"""The pure core: identifiers, protocol, resolution and descriptions. It knows no framework."""
