"""What the bridge's Python module sees of slime, and no more: a stand-in for tests."""
