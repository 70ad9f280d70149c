#!/usr/bin/env python3
"""Replaces the folders of the machine that measured by the names under which the files ship.

usage: tools/shorten_records.py FOLDER OLD=NEW...

Rewrites every *.json.gz below FOLDER: OLD is replaced by NEW in all texts (commands, overrides, the stored prediction).
Nothing measured and no number of a prediction changes. Where the text of a prediction changes, its digest is made anew;
the digests as they were written before each run are kept in digests.txt, with their time.
"""
import gzip
import hashlib
import json
import pathlib
import sys


def replaced(value, pairs):
    if isinstance(value, dict):
        return {key: replaced(item, pairs) for key, item in value.items()}
    if isinstance(value, list):
        return [replaced(item, pairs) for item in value]
    if isinstance(value, str):
        for old, new in pairs:
            value = value.replace(old, new)
    return value


def main():
    folder = pathlib.Path(sys.argv[1])
    pairs = [argument.split("=", 1) for argument in sys.argv[2:]]
    digests = []
    for path in sorted(folder.rglob("*.json.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            record = json.load(file)
        prediction = record.get("prediction") or {}
        if "digest" in prediction:
            digests.append(f"{prediction['digest']}  {path.relative_to(folder)}  {prediction.get('time', '')}")
        record = replaced(record, pairs)
        if "digest" in prediction:
            shortened = record["prediction"]["json"]
            if shortened != prediction["json"]:
                record["prediction"]["digest"] = hashlib.sha256(shortened.encode("utf-8")).hexdigest()
        text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
        with open(path, "wb") as raw, gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as file:
            file.write(text.encode("utf-8"))
    if digests:
        (folder / "digests.txt").write_text("\n".join(digests) + "\n", encoding="utf-8")


main()
