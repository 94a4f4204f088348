class GenerateState:
    """One for the process, as slime's is; aborted is its abort flag."""

    _one = None

    def __new__(cls, args):
        if cls._one is None:
            cls._one = super().__new__(cls)
            cls._one.aborted = False
        return cls._one
