"""Machines with other fonts, as fontconfig tells the browser of them."""

import os
import sys
from importlib.metadata import files
from pathlib import Path

from matplotlib import get_data_path

MATPLOTLIB = Path(get_data_path(), "fonts", "ttf")
SETUPS = {
    "dejavu": sorted(MATPLOTLIB.glob("DejaVu*.ttf")),
    # Arimo is Liberation Sans by its other name.
    "liberation": [file.locate() for file in files("fontpkg-arimo") if file.suffix == ".ttf"],
    # Without any font a browser does not start; this one has a few signs, and no letter.
    "none": [MATPLOTLIB / "STIXSizFiveSymReg.ttf"],
}


def environment(setup: str, folder: Path) -> dict[str, str]:
    """That of a process on a machine whose only fonts are those of ``setup``."""
    fonts = folder / "fonts"
    fonts.mkdir(parents=True)
    for file in SETUPS[setup]:
        (fonts / file.name).symlink_to(file)
    configuration = folder / "fonts.conf"
    configuration.write_text(
        f"<fontconfig><dir>{fonts}</dir><cachedir>{folder / 'cache'}</cachedir></fontconfig>",
        encoding="utf-8",
    )
    return {**os.environ, "FONTCONFIG_FILE": str(configuration)}


if __name__ == "__main__":  # python machines.py SETUP FOLDER: where to find it, for FONTCONFIG_FILE
    print(environment(sys.argv[1], Path(sys.argv[2]))["FONTCONFIG_FILE"])
