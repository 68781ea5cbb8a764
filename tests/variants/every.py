"""Many cases in one test, each of which is named when it fails."""

import functools
import inspect


def every(names, values):
    """Asks what ``pytest.mark.parametrize`` would make a test each of; several are combined."""
    names = tuple(one.strip() for one in names.split(",")) if isinstance(names, str) else names
    mine = [dict(zip(names, one if len(names) > 1 else [one], strict=True)) for one in values]

    def decorate(test):
        question, others = getattr(test, "every", (test, [{}]))
        cases = [one | other for one in mine for other in others]

        @functools.wraps(test)
        def asked(subtests, **fixtures):
            for case in cases:
                with subtests.test(**case):
                    question(**case, **fixtures)

        wanted = inspect.signature(question).parameters.values()
        kept = [one for one in wanted if one.name not in cases[0]]
        subtests = inspect.Parameter("subtests", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        asked.__signature__ = inspect.Signature([subtests, *kept])
        asked.every = question, cases
        return asked

    return decorate
