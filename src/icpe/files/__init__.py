"""Files that survive crashes: atomic writing, several files at once, checksums, and a lock for a folder."""

from icpe.files.atomic import remove_leftovers, write_atomically, write_json, write_text
from icpe.files.lock import lock_folder
from icpe.files.manifest import MANIFEST, opened, read_json, sealed
from icpe.files.others import refuse_others
from icpe.files.together import finish_interrupted, write_together
from icpe.files.verify import check_files
from icpe.files.whole import read_folder, write_folder

__all__ = [
    "MANIFEST",
    "check_files",
    "finish_interrupted",
    "lock_folder",
    "opened",
    "read_folder",
    "read_json",
    "refuse_others",
    "remove_leftovers",
    "sealed",
    "write_atomically",
    "write_folder",
    "write_json",
    "write_text",
    "write_together",
]
