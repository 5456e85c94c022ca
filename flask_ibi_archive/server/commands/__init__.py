"""What the commands of both products share: options, output, progress."""
