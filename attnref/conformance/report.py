"""The answer: a result for each property, as an object, as text, as JSON and as JUnit XML."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from attnref.conformance.examination import NO_SOFTMAX, NOT_MADE, REFUSED
from attnref.conformance.isolation import LATE
from attnref.conformance.junit import Case, document
from attnref.conformance.result import WORDS, Result, is_bad
from attnref.conformance.verdict import Verdict
from attnref.text import LANGUAGES, Text

SETTINGS = Text(
    en="{function} · {dtype} · {device} · seed {seed}",
    pt="{function} · {dtype} · {device} · semente {seed}",
)
READ = Text(en="read as: {as}", pt="lida assim: {as}")
UNPROTECTED = Text(
    en="Tested in this very process: nothing would have stopped a call that hangs or crashes.",
    pt="Testada neste mesmo processo: nada teria parado uma chamada que trava ou derruba o "
    "processo.",
)
OVERLOOKED = Text(
    en="No {option} was tested: it takes {parameter}. If they mean the same: --map "
    "{option}={parameter}",
    pt="Nenhum {option} foi testado: ela recebe {parameter}. Se significam o mesmo: --map "
    "{option}={parameter}",
)
ALL_RIGHT = Text(en="Right in all that was tested.", pt="Certa em tudo o que se testou.")
UNSAFE = Text(
    en="Right for ordinary inputs; unsafe in {names}.",
    pt="Certa para entradas comuns; insegura em {names}.",
)
WRONG = Text(en="Wrong in {names}.", pt="Errada em {names}.")
FIX_FIRST = Text(
    en="Wrong in {names}. Fix that first: {count} more may follow from it.",
    pt="Errada em {names}. Conserte isso primeiro: {count} a mais podem vir daí.",
)
NO_MORE = Text(
    en="Nothing wrong except what is expected.", pt="Nada de errado além do que se espera."
)
UNSAFE_TOO = Text(
    en="Except for what is expected, unsafe in {names}.",
    pt="Além do que se espera, insegura em {names}.",
)
ACCEPTED = Text(en="As expected: {names}.", pt="Como esperado: {names}.")
STALE = Text(
    en="No longer as expected: {names}. Update expect.",
    pt="Diferente do esperado: {names}. Atualize expect.",
)
UNASKED = Text(
    en="Not tested: {options}, which it may take by another name.",
    pt="Não testado: {options}, que ela talvez receba com outro nome.",
)
UNFINISHED = Text(
    en="Not everything was tested: it took too long; --limit gives it more time.",
    pt="Nem tudo foi testado: ela demorou demais; --limit lhe dá mais tempo.",
)
MORE = Text(en="{count} more", pt="{count} outras")
DECLINED = Text(
    en="Not accepted: {options}; each call with it raised an error.",
    pt="Não aceito: {options}; cada chamada com ele lançou um erro.",
)


_MANY = 8  # that share a reason are told in one line


@dataclass(frozen=True)
class Report:
    """The results of a check, and what was checked how.

    In the order of the properties, but for what may follow from another fault: it comes below it.

    ``limit`` is None when the function was asked in the caller's own process. ``overlooked`` are
    options that it takes by another name, it seems, and that were therefore not tested;
    ``reading`` says what was recognised of it, in words and what fills their places.

    Examples:
        >>> from attnref import conformance, scaled_dot_product_attention
        >>> report = conformance.check(scaled_dot_product_attention, only=["row_sums"])
        >>> report.passed(), report.failures
        (True, ())
    """

    function: str
    dtype: str
    device: str
    seed: int
    limit: float | None
    results: tuple[Result, ...]
    overlooked: Mapping[str, str] = field(default_factory=dict)
    reading: tuple[tuple[Text, Mapping[str, object]], ...] = ()

    @property
    def failures(self) -> tuple[Result, ...]:
        """The results whose verdict is WRONG, except for those that are expected."""
        return tuple(
            each for each in self.results if each.verdict is Verdict.WRONG and not each.expected
        )

    @property
    def causes(self) -> tuple[Result, ...]:
        """What is wrong or unsafe by itself: expected neither, nor following from what is not."""
        bad = [each for each in self.results if is_bad(each.verdict, strict=True)]
        expected = {each.property for each in bad if each.expected}
        return tuple(
            each
            for each in bad
            if not each.expected and (not each.follows or each.follows in expected)
        )

    @property
    def explained(self) -> tuple[Result, ...]:
        """The causes that are the first of their kind: their calls are shown."""
        first = {each.diagnosis(): each for each in reversed(self.causes)}
        return tuple(each for each in self.causes if first[each.diagnosis()] is each)

    @property
    def declined(self) -> tuple[str, ...]:
        """The options that it takes, and of which each property got an error alone."""
        found: dict[str, list[Result]] = {}
        for each in self.results:
            if len(each.rule.needs) == 1:
                found.setdefault(each.rule.needs[0], []).append(each)
        return tuple(
            option
            for option, results in found.items()
            if all(each.verdict is Verdict.NOT_CLAIMED for each in results)
            and any(each.finding.text in (REFUSED, NOT_MADE) for each in results)
        )

    def passed(self, strict: bool = False) -> bool:
        """Whether nothing is wrong; with ``strict``, nothing unsafe either."""
        return not any(each.fails(strict) for each in self.results)

    def heading(self, lang: str = "en") -> str:
        """What was checked how, and how it was read where that is not PyTorch's way."""
        about = {name: getattr(self, name) for name in ("function", "dtype", "device", "seed")}
        read = self.read_as(lang)
        lines = [SETTINGS.say(lang, about)]
        return "\n".join([*lines, READ.say(lang, {"as": read})] if read else lines)

    def read_as(self, lang: str = "en") -> str:
        """Its names, axes and meanings, where they are not PyTorch's."""
        return "; ".join(text.say(lang, values) for text, values in self.reading)

    def verdict(self, lang: str = "en") -> str:
        """The whole in a sentence or two: what is wrong, what to fix first, what was not asked."""
        expected = [each for each in self.results if each.expected]
        outdated = [each for each in self.results if each.outdated]
        besides = any(is_bad(each.verdict, strict=True) for each in expected)
        wrong, unsafe = (
            [each.property for each in self.causes if each.verdict is verdict]
            for verdict in (Verdict.WRONG, Verdict.UNSAFE)
        )
        effects = len(self.failures) - len(wrong)
        if wrong:
            about = {"names": ", ".join(wrong), "count": effects}
            lines = [(FIX_FIRST if effects else WRONG).say(lang, about)]
        elif unsafe:
            about = {"names": ", ".join(unsafe)}
            lines = [(UNSAFE_TOO if besides else UNSAFE).say(lang, about)]
        else:
            lines = [(NO_MORE if besides else ALL_RIGHT).say(lang)]
        for text, told in ((ACCEPTED, expected), (STALE, outdated)):
            if told:
                names = ", ".join(each.property for each in told)
                lines.append(text.say(lang, {"names": names}))
        unasked = [each for each in self.results if each.verdict is Verdict.NOT_ASKED]
        if any(each.finding.text == LATE for each in unasked):
            lines.append(UNFINISHED.say(lang))
        if self.overlooked and any(each.finding.text != LATE for each in unasked):
            lines.append(UNASKED.say(lang, {"options": ", ".join(self.overlooked)}))
        other = [each for each in unasked if each.finding.text == NO_SOFTMAX]
        lines += [each.diagnosis(lang) for each in other[:1]]
        if self.declined:
            lines.append(DECLINED.say(lang, {"options": ", ".join(self.declined)}))
        return " ".join(lines)

    def summary(self, lang: str = "en") -> str:
        """How often each verdict was given, what was overlooked, and whether it ran unprotected."""
        counts = {
            verdict: sum(each.verdict is verdict for each in self.results) for verdict in Verdict
        }
        line = ", ".join(
            f"{count} {WORDS[verdict].say(lang)}" for verdict, count in counts.items() if count
        )
        lines = [
            line,
            *(
                OVERLOOKED.say(lang, {"option": option, "parameter": parameter})
                for option, parameter in self.overlooked.items()
            ),
        ]
        return "\n".join(lines if self.limit is not None else [*lines, UNPROTECTED.say(lang)])

    def rows(self, lang: str = "en") -> Iterator[tuple[Result, str, str]]:
        """What is told: a result, its name and its line; many that share a reason not to, once."""
        alike: dict[str, list[Result]] = {}
        for result in self.results:
            if result.verdict is Verdict.NOT_ASKED:
                alike.setdefault(result.line(lang), []).append(result)
        many = {line: results for line, results in alike.items() if len(results) > _MANY}
        for result in self.results:
            if result.line(lang) not in many:
                yield result, result.property, result.line(lang)
        for line, results in many.items():
            names = ", ".join(each.property for each in results)
            yield results[0], MORE.say(lang, {"count": len(results)}), f"{line} ({names})"

    def text(self, lang: str = "en") -> str:
        """The report for people, in plain text."""
        lines = [self.heading(lang), self.verdict(lang), ""]
        for result, name, line in self.rows(lang):
            word = WORDS[result.verdict].say(lang)
            lines.append(f"{word:<12} {name}: {line}")
            if result in self.explained:
                lines += [f"{'':<12} {line}" for line in result.details(lang)]
        return "\n".join([*lines, "", self.summary(lang)])

    def to_json(self) -> str:
        """The report for machines; diagnoses in all languages, NaN and inf as strings."""
        return dump_json(self.record())

    def record(self) -> dict[str, object]:
        """What :meth:`to_json` writes."""
        return {
            "function": self.function,
            "dtype": self.dtype,
            "device": self.device,
            "seed": self.seed,
            "limit": self.limit,
            "overlooked": dict(self.overlooked),
            "declined": list(self.declined),
            "read_as": {lang: self.read_as(lang) for lang in LANGUAGES},
            "verdict": {lang: self.verdict(lang) for lang in LANGUAGES},
            "passed": self.passed(),
            "passed_strictly": self.passed(strict=True),
            "results": [result.record() for result in self.results],
        }

    def to_junit(self, lang: str = "en", strict: bool = False) -> str:
        """The report as JUnit XML: one test case per property; what is not offered is skipped."""
        return document([self.cases(lang, strict)])

    def cases(self, lang: str = "en", strict: bool = False) -> list[Case]:
        """What :meth:`to_junit` writes."""
        return [result.case(self.function, lang, strict) for result in self.results]


def dump_json(record: object) -> str:
    """In the form of :meth:`Report.to_json`."""
    return json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False)
