"""The status banner and the replies that never change."""
