# Its module answers to every name, with functions that have no readable signature.
# statuses = ["failed", "raised"]
# score = 0
class Any:
    __signature__ = "none"

    def __call__(self, *args, **kwargs):
        return self


def __getattr__(name):
    return Any()
