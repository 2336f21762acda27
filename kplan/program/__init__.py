"""The program `kplan`: its commands, its streams, and what shells complete."""
