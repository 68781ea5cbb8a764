"""Two lines for each solution of a class, from its JUnit report."""

# --8<-- [start:example]
from pathlib import Path
from xml.etree import ElementTree


def names(cases, outcome):
    found = [case for case in cases if case.find(outcome) is not None]
    return ", ".join(case.get("name") for case in found) or "-"


def print_table(folder="."):
    for report in sorted(Path(folder).glob("*.xml")):
        cases = ElementTree.parse(report).findall(".//testcase")
        print(f"{report.stem:6} wrong:       {names(cases, 'failure')}")
        print(f"{'':6} not claimed: {names(cases, 'skipped')}")


# --8<-- [end:example]

if __name__ == "__main__":
    import shutil
    import tempfile

    from shell import typed

    asked = "oracle,scale,mask_polarity,causality"
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(Path(__file__).with_name("submissions.py"), folder)
        for name in ("ana", "bia", "caio"):
            what = f"submissions.py:{name} --only {asked}"
            typed(f"attnref check {what} --format junit -o {name}.xml", folder)
        print_table(folder)
