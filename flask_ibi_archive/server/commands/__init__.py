"""The parts that the commands of Archives and resolvers share: options, output, progress."""
