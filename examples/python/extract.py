"""An extractor for Guyline: the event on stdin, the file in GUYLINE_FILE, one JSON object on stdout.

It uses nothing but Python's standard library, and so it counts pages naively: a page that is
written inside a compressed object stream is not seen.
"""

import hashlib
import json
import os
import re
import sys

REJECTED, TRY_AGAIN = 65, 75  # EX_DATAERR, EX_TEMPFAIL


def end(code, reason):
    """Exit with a verdict; the last lines of stderr become its reason."""
    print(reason, file=sys.stderr)
    sys.exit(code)


def main():
    event = json.load(sys.stdin)
    with open(os.environ["GUYLINE_FILE"], "rb") as file:
        content = file.read()
    if b"%PDF-" not in content[:1024]:
        end(REJECTED, 'not a PDF: no "%PDF-" in the first 1,024 bytes; deliver the PDF itself')
    if b"%%EOF" not in content[-1024:]:
        end(TRY_AGAIN, 'maybe incomplete: no "%%EOF" in the last 1,024 bytes')
    pages = len(re.findall(rb"/Type\s*/Page\b", content))
    if pages == 0:
        end(REJECTED, "no page found; repair or replace the file")
    json.dump({
        "site_id": event["site_id"],
        "pages": pages,
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
    }, sys.stdout)


main()
