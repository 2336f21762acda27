"""What a change brings about: rollouts, drains and losses, followed until nothing moves."""
