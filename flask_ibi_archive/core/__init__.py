"""The pure core: identifiers, protocol, resolution, records and claims, without any framework."""
