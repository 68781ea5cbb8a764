"""What the checker says of a project that names two functions."""

# --8<-- [start:example]
import shutil
import tempfile
from pathlib import Path

from shell import typed

HERE = Path(__file__).parent

with tempfile.TemporaryDirectory() as folder:
    for name in ("fixed.py", "layer.py"):
        shutil.copy(HERE / name, folder)
    shutil.copy(HERE / "settings.toml", Path(folder, "pyproject.toml"))
    typed("attnref check", folder, grep="s expected")
    typed("attnref check layer.py:SelfAttention", folder)
# --8<-- [end:example]
