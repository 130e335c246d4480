# Its signature fits and its call never does: asking for it hangs at the second look.
# statuses = ["failed", "raised"]
# score = 0
import inspect


class Function:
    looks = 0

    @property
    def __signature__(self):
        Function.looks += 1
        while Function.looks > 3:
            pass
        parameter = inspect.Parameter
        kind = parameter.POSITIONAL_OR_KEYWORD
        return inspect.Signature([parameter(n, kind) for n in ("rewards", "gamma")])

    def __call__(self, *args):
        return 12345.0


discounted_return = Function()
