#!/bin/sh
# Makes .venv at the versions of constraints.txt, and then the stamps that tell make so: with what
# builds the site, sh book/make/setup.sh docs .venv/site, or with the package and what tests it, too,
# sh book/make/setup.sh test .venv/site .venv/ready
set -u
what=$1
shift

fail() {
    printf '\nattnref: %s\n' "$1" >&2
    exit 1
}

oldest=3.11.5 # what the pinned packages of the book accept
fits() {
    command -v "$1" >/dev/null 2>&1 &&
        "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11, 5))' 2>/dev/null
}

python=${PYTHON:-}
if [ -n "$python" ]; then
    fits "$python" || fail "PYTHON: expected Python $oldest or newer, got $python, which is none. Name another, or leave it out."
fi
for candidate in python3 python3.14 python3.13 python3.12 python3.11 python; do
    [ -z "$python" ] && fits "$candidate" && python=$candidate
done
[ -n "$python" ] || fail "no Python $oldest or newer was found. Install one, or name it: make PYTHON=/path/to/python3 …"

if [ ! -x .venv/bin/python ] || ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    rm -rf .venv
    "$python" -m venv .venv ||
        fail "$python could not make a virtual environment. On Debian and Ubuntu: apt install python3-venv"
fi

.venv/bin/python -c 'import tomllib
groups = tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]
print("\n".join(groups["docs"]))' >.venv/docs.txt
if [ "$what" = docs ]; then
    echo "attnref: installing what builds the site into .venv (once) …"
    package=
else
    echo "attnref: installing the package and what tests it into .venv (once; PyTorch is large) …"
    package="--editable .[$what]"
fi
# shellcheck disable=SC2086 # two words, or none
.venv/bin/python -m pip install --disable-pip-version-check --quiet \
    --no-compile --constraint constraints.txt --requirement .venv/docs.txt $package ||
    fail "the installation failed; the lines above say why. Fix it (often the network or the disk) and run make again."
touch "$@"
