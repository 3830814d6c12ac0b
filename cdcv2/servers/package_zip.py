"""The package as a zip, as ``spark-submit --py-files`` takes it. ``make zip`` runs this file by itself.

So it needs only the standard library, and imports nothing of the package.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path


def package_zip(folder: Path) -> Path:
    """Write ``cdcv2.zip`` into ``folder`` and return its path."""
    target = folder / "cdcv2.zip"
    package = Path(__file__).resolve().parents[1]
    # In a checkout the schemas are beside the package, whether it is installed or not.
    beside = [] if (package / "schemas").is_dir() else [(package.parent / "schemas", "cdcv2/schemas")]
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for root, inside in ((package, "cdcv2"), *beside):
            for path in sorted(root.rglob("*")):
                wanted = path.suffix in (".py", ".avsc", ".lock") or path.name == "py.typed"
                if wanted and "__pycache__" not in path.parts:
                    archive.write(path, f"{inside}/{path.relative_to(root)}")
    return target


if __name__ == "__main__":
    print(package_zip(Path(sys.argv[1])))
