#!/bin/sh
# Makes .venv with everything that the Makefile's targets need, at the versions of constraints.txt.
set -u

fail() {
    printf '\nattnref: %s\n' "$1" >&2
    exit 1
}

python=
for candidate in "${PYTHON:-}" python3 python3.14 python3.13 python3.12 python3.11 python; do
    [ -n "$candidate" ] && command -v "$candidate" >/dev/null 2>&1 &&
        "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null &&
        python=$candidate && break
done
[ -n "$python" ] || fail "no Python 3.11 or newer was found. Install one, or name it: make PYTHON=/path/to/python3 …"

if [ ! -x .venv/bin/python ] || ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    rm -rf .venv
    "$python" -m venv .venv ||
        fail "$python could not make a virtual environment. On Debian and Ubuntu: apt install python3-venv"
fi

echo "attnref: installing into .venv (once; PyTorch is large) …"
.venv/bin/python -m pip install --disable-pip-version-check --quiet \
    --constraint constraints.txt --editable '.[docs,test]' ||
    fail "the installation failed; the lines above say why. Mend it (often the network or the disk) and run make again."
touch .venv/ready
