"""Write the reference pages that are derived from code: ``python docs/generate.py``; ``--check`` only compares."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import django

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "reference"


def pages() -> dict[Path, str]:
    """Every generated page, by path."""
    from docs.pages.commands import commands
    from docs.pages.lifecycle import lifecycle
    from docs.pages.options import job_options, settings
    from docs.pages.worker import worker

    return {
        REFERENCE / "lifecycle.md": lifecycle(),
        REFERENCE / "job-options.md": job_options(),
        REFERENCE / "settings.md": settings(),
        REFERENCE / "worker.md": worker(),
        REFERENCE / "commands.md": commands(),
    }


def main() -> int:
    """Write the pages that have changed; with ``--check``, only name them, and 1 when there are any."""
    sys.path.insert(0, str(ROOT))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_project.settings")
    django.setup()
    current = {path: path.read_text("utf-8") if path.exists() else "" for path in pages()}
    stale = {path: text for path, text in pages().items() if text != current[path]}
    for path, text in stale.items():
        if "--check" not in sys.argv:
            path.write_text(text, "utf-8")
        sys.stdout.write(f"{path.relative_to(ROOT)}\n")
    return int(bool(stale) and "--check" in sys.argv)


if __name__ == "__main__":
    raise SystemExit(main())
