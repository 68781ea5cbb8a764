"""The command ``attnref exercise``."""

import difflib
import os
import shlex
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from attnref.book import page_address
from attnref.exercises import memory, source
from attnref.exercises.exercise import Exercise, all_exercises
from attnref.exercises.findings import PARTS
from attnref.exercises.judging import FILE, Outcome, judge, parts
from attnref.exercises.report import report
from attnref.exercises.watching import stamp, wait_for_save
from attnref.text import LANGUAGES, Text, choose_help, one_of, preferred_language, translate_help

TOPICS = {
    "words": Text("Six words"),
    "formula": Text("The formula"),
    "masks": Text("Masks"),
    "heads": Text("Heads"),
    "positions": Text("Positions"),
    "blocks": Text("In blocks"),
    "training": Text("Training"),
    "linear": Text("Linear attention"),
    "today": Text("Today's models"),
    "assembled": Text("Assembled"),
}
NEW, STARTED, SOLVED = (
    Text(""),
    Text("started"),
    Text("solved"),
)
HEADING = Text(
    "{title} (exercise {number} of {all})\n\nRead:  {page}\n\nCheck: {check}\n\nHint:  {hint}"
)
REMINDER = Text("yours to write")
WRITTEN = Text("Wrote {path}. Write the function in it, then: {check}")
WATCHING = Text("Save {path} to have it checked again; Ctrl-C ends.")
COUNT = Text("{solved} of {all} solved.")
GO_ON = Text("Next is {path}, which you have started. To check it: {check}")
NONE_LEFT = Text("No exercise is left. What comes next is your own attention: {page}")
NEXT = Text("Next: {command}")
EARLIER = Text("Before this one, not known to be solved: {count}, the first {first}. See: {list}")
FINISHED = Text("That was the last one.")
ALL_SOLVED = Text("That was the last one: all {all} are solved.")
HINT = Text("Hint {number} of {all}:")
MORE = Text("The next one: {hint}")
NO_MORE = Text("That was the last hint. The solution: {solution}")
UNKNOWN = Text("There is no exercise {name!r}. {near}See: attnref exercise list")
NEAR = Text("Did you mean {name}? ")
NO_FOLDER = Text("The folder {folder!r} does not exist. Create it first.")
EXISTS = Text("{path} exists already. To write over it, and lose what is in it, pass --force.")
NOT_WRITTEN = Text("{path} cannot be written: {error}. Choose another place with --folder.")
NOT_STARTED = Text("{path} does not exist. Begin with: {start}")
NO_HINT = Text("There is no hint {number}. Choose one from 1 to {all}.")

exercise = typer.Typer(
    help=choose_help("Learn attention by writing it: a program grades what you write."),
    no_args_is_help=True,
    rich_markup_mode=None,
)

Name = Annotated[
    str,
    typer.Argument(help=choose_help("Name of the exercise."), show_default=False),
]
Folder = Annotated[
    Path,
    typer.Option(help=choose_help("Folder of your files.")),
]
Language = Annotated[
    str | None,
    typer.Option(
        help=choose_help(
            "One of {languages} (default: the system language).", languages=", ".join(LANGUAGES)
        )
    ),
]
_HERE = Path(".")


class _Learner:
    """Who called: the language to speak, and the options to repeat in what is proposed."""

    def __init__(self, lang: str | None, folder: Path = _HERE) -> None:
        if lang is not None and lang not in LANGUAGES:
            _refuse(one_of("lang", LANGUAGES, lang).say(preferred_language(os.environ)))
        self.lang = lang or preferred_language(os.environ)
        self.folder = folder
        self.options = [] if folder == _HERE else ["--folder", str(folder)]
        self.options += [] if lang is None else ["--lang", lang]
        if not folder.is_dir():
            self.refuse(NO_FOLDER, folder=str(folder))

    def say(self, text: Text, **values: object) -> str:
        return text.say(self.lang, values)

    def refuse(self, text: Text, **values: object) -> NoReturn:
        _refuse(self.say(text, **values))

    def command(self, *words: str) -> str:
        """A command as this learner would type it."""
        return shlex.join(["attnref", "exercise", *words, *self.options])

    def exercise(self, name: str) -> Exercise:
        named = {each.name: each for each in all_exercises()}
        if name not in named:
            close = difflib.get_close_matches(name, named, n=1)
            near = self.say(NEAR, name=close[0]) if close else ""
            self.refuse(UNKNOWN, name=name, near=near)
        return named[name]


@exercise.command("list")
@translate_help
def list_(folder: Folder = _HERE, lang: Language = None) -> None:
    """List all exercises, with those started and those solved in the folder.

    The files in the folder are run to see it, except those solved before and unchanged since.

    Dots say how hard each is, from • to •••.
    """
    learner = _Learner(lang, folder)
    width = max(len(each.name) for each in all_exercises())
    words = max(len(learner.say(word)) for word in (STARTED, SOLVED))
    topic, states = "", []
    for each in all_exercises():
        if each.topic != topic:
            topic = each.topic
            print(f"{'' if each.number == 1 else chr(10)}{learner.say(TOPICS[topic])}")
        states.append(_state(each, folder / each.file))
        state, dots = learner.say(states[-1]), "•" * each.difficulty
        title = each.text(learner.lang).title
        print(f"{each.number:4}  {state:{words}}  {dots:3}  {each.name:{width}}  {title}")
    print(f"\n{_count(states, learner)}")


def _count(states: Collection[Text], learner: _Learner) -> str:
    solved = sum(state == SOLVED for state in states)
    return learner.say(COUNT, solved=solved, all=len(states))


def _state(each: Exercise, path: Path) -> Text:
    if not path.exists():
        return NEW
    return SOLVED if memory.is_solved(path) or _judge(each, path)[0] else STARTED


def _judge(each: Exercise, path: Path) -> tuple[bool, list[Outcome]]:
    """Whether it is solved, which is remembered, and all outcomes."""
    before = memory.digest(path)
    outcomes = list(judge(each, path))
    solved = all(outcome.passed for outcome in outcomes)
    memory.remember(path, before if solved else None)
    return solved, outcomes


@exercise.command()
@translate_help
def start(
    name: Name,
    folder: Folder = _HERE,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help=choose_help("Overwrite your file."),
        ),
    ] = False,
    lang: Language = None,
) -> None:
    """Create the file of an exercise in the folder, its function to be written."""
    learner = _Learner(lang, folder)
    each = learner.exercise(name)
    path = folder / each.file
    if path.exists() and not force:
        learner.refuse(EXISTS, path=path)
    print(_start(each, learner))
    unsolved = [part for part in parts(path) if _state(part, folder / part.file) != SOLVED]
    if unsolved:
        print(learner.say(PARTS, names=", ".join(part.name for part in unsolved)))
        _say_how_to_solve(unsolved, learner)


def _say_how_to_solve(unsolved: Collection[Exercise], learner: _Learner) -> None:
    for each in unsolved:
        started = (learner.folder / each.file).exists()
        print(f"  {learner.command('check' if started else 'start', each.name)}")


def _start(each: Exercise, learner: _Learner) -> str:
    """Writes its file, and says how to go on."""
    path = learner.folder / each.file
    heading = learner.say(
        HEADING,
        title=each.text(learner.lang).title,
        number=each.number,
        all=len(all_exercises()),
        page=page_address(each.page, learner.lang),
        check=f"attnref exercise check {each.name}",
        hint=f"attnref exercise hint {each.name}",
    )
    text = source.starter(each, learner.lang, heading, learner.say(REMINDER))
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        learner.refuse(NOT_WRITTEN, path=path, error=error.strerror)
    return learner.say(WRITTEN, path=path, check=learner.command("check", each.name))


@exercise.command("next")
@translate_help
def next_(folder: Folder = _HERE, lang: Language = None) -> None:
    """Start the next exercise that is not solved, and say how many are.

    If its file is in the folder already, only say which it is.
    """
    learner = _Learner(lang, folder)
    states = {each: _state(each, folder / each.file) for each in all_exercises()}
    first = next((each for each, state in states.items() if state != SOLVED), None)
    if first is None:
        page = page_address("practice/checker", learner.lang)
        step = learner.say(NONE_LEFT, page=page)
    elif states[first] == STARTED:
        check = learner.command("check", first.name)
        step = learner.say(GO_ON, path=folder / first.file, check=check)
    else:
        step = _start(first, learner)
    print(_count(states.values(), learner))
    print(step)


@exercise.command()
@translate_help
def check(
    name: Name,
    folder: Folder = _HERE,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            help=choose_help(
                "Grade it after each save, until it is solved; of the rules, show only the "
                "first that is broken."
            ),
        ),
    ] = False,
    lang: Language = None,
) -> None:
    """Grade what you have written.

    The exit status is 0 when it is solved, 1 when it is not yet, 2 when it could not be graded.
    What your function prints is not shown: to see that, run the file itself.
    """
    learner = _Learner(lang, folder)
    each = learner.exercise(name)
    path = folder / each.file
    if not path.exists():
        learner.refuse(NOT_STARTED, path=path, start=learner.command("start", name))
    raise typer.Exit(_watch(each, learner) if watch else _check(each, learner))


def _check(each: Exercise, learner: _Learner, *, brief: bool = False) -> int:
    """Says what is to be said of the file; the exit status."""
    solved, outcomes = _judge(each, learner.folder / each.file)
    print(report(each, outcomes, learner.lang, brief=brief), end="")
    if not solved:
        last = outcomes[-1]
        if last.finding is not None and last.finding.text == PARTS:
            names = str(last.finding.values["names"]).split(", ")
            _say_how_to_solve([learner.exercise(name) for name in names], learner)
        return 2 if last.name == FILE else 1
    print(f"\n{source.fill(each.text(learner.lang).why)}\n")
    for line in _next_steps(each, learner):
        print(line)
    return 0


def _watch(each: Exercise, learner: _Learner) -> int:
    """Checks after each save until it is solved, or until Ctrl-C; the last exit status."""
    path, status = learner.folder / each.file, 1
    try:
        seen = stamp(path)
        while status := _check(each, learner, brief=True):
            print(f"\n{learner.say(WATCHING, path=path)}", flush=True)
            wait_for_save(path, seen)
            seen = stamp(path)
            print(f"\n── {time.strftime('%H:%M:%S')} {'─' * 76}")
    except KeyboardInterrupt:
        print()
    return status


def _next_steps(solved: Exercise, learner: _Learner) -> Iterator[str]:
    """What to do next: the next one that is not solved, and whether earlier ones were left out."""
    unsolved = [
        each
        for each in all_exercises()
        if each != solved and not memory.is_solved(learner.folder / each.file)
    ]
    earlier = [each for each in unsolved if each.number < solved.number]
    later = unsolved[len(earlier) :]
    if later:
        name = later[0].name
        started = (learner.folder / later[0].file).exists()
        yield learner.say(NEXT, command=learner.command("check" if started else "start", name))
    else:
        yield learner.say(FINISHED if earlier else ALL_SOLVED, all=len(all_exercises()))
    if earlier:
        first, shown = earlier[0].name, learner.command("list")
        yield learner.say(EARLIER, count=len(earlier), first=first, list=shown)


@exercise.command()
@translate_help
def hint(
    name: Name,
    number: Annotated[
        int,
        typer.Argument(help=choose_help("Number of the hint; each tells more.")),
    ] = 1,
    lang: Language = None,
) -> None:
    """Show a hint, beginning with the smallest."""
    learner = _Learner(lang)
    hints = learner.exercise(name).text(learner.lang).hints
    if not 1 <= number <= len(hints):
        learner.refuse(NO_HINT, number=number, all=len(hints))
    print(learner.say(HINT, number=number, all=len(hints)))
    print(source.fill(hints[number - 1]))
    if number < len(hints):
        print(learner.say(MORE, hint=learner.command("hint", name, str(number + 1))))
    else:
        print(learner.say(NO_MORE, solution=learner.command("solution", name)))


@exercise.command()
@translate_help
def solution(name: Name, lang: Language = None) -> None:
    """Show a solution, and why it is written so."""
    learner = _Learner(lang)
    # A file of Python is in UTF-8, whatever the terminal's encoding.
    typer.echo(source.solution(learner.exercise(name), learner.lang).encode(), nl=False)


def _refuse(message: str) -> NoReturn:
    print(f"attnref exercise: {message}", file=sys.stderr)
    raise typer.Exit(2)
