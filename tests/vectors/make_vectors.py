#!/usr/bin/env python3
"""Makes cids.json, nodes.json, sharded_directories.json and cars.json anew: python3 make_vectors.py PATH_OF_IPFS

Every CID, size and byte in them is kubo's answer; nothing of this repository takes part. What
must be refused is written by hand, in cid_forms.json and refused.json, and is not touched.
"""

import base64
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
IPFS = Path(sys.argv[1]).resolve()

PROFILES = {
    "unixfs-v1-2025": {
        "cid_version": 1, "raw_leaves": True, "chunk_bytes": 1048576, "links_max": 1024,
        "hamt_size_estimation": "block-bytes",
    },
    "kubo-default": {
        "cid_version": 0, "raw_leaves": False, "chunk_bytes": 262144, "links_max": 174,
        "hamt_size_estimation": "links-bytes",
    },
    "v1-256-kib": {
        "cid_version": 1, "raw_leaves": True, "chunk_bytes": 262144, "links_max": 174,
        "hamt_size_estimation": "links-bytes",
    },
    "v1-1-mib": {
        "cid_version": 1, "raw_leaves": True, "chunk_bytes": 1048576, "links_max": 174,
        "hamt_size_estimation": "links-bytes",
    },
}

# Around one chunk, around one node of each profile, and well beyond.
SIZES = [0, 1, 262143, 262144, 262145, 524288, 1048575, 1048576, 1048577,
         45613056, 45613057, 52428800, 314572800]

TEXTS = ["", "\n", "a", "Hello, world!\n", "# A page\n\nLit by whoever reads it.\n",
         "Grüße, 世界 🔥\n", "line one\r\nline two\r\n", "\u0000", "\ufeffbom\n"]


def text(path, content):
    return {"path": path, "text": content}


def generated(path, size):
    return {"path": path, "bytes": size}


DIRECTORIES = [
    ("an empty directory", []),
    ("one file", [text("index.md", "# Hello\n")]),
    ("names are sorted by their bytes, not by their letters",
     [text(name, name) for name in ["b", "a", "B", "ab", "a.b", "a b", "10", "9", "é", "z", "🔥",
                                    "\uffee", "_", "-", "~"]]),
    ("names that mean something in JavaScript",
     [text(name, name) for name in ["__proto__", "constructor", "length", "toString", "0"]]),
    ("names with characters that links and shells quote",
     [text(name, name) for name in ["a?b", "a#b", "100%", "%2e%2e", "a\\b", "a'b\"c", " ", "...",
                                    "-rf", "a\nb"]]),
    ("hidden files belong to it", [text(".hidden", "h\n"), text("shown", "s\n")]),
    ("directories in directories",
     [text("index.html", "<!doctype html>\n<link rel=stylesheet href=css/style.css>\n"),
      text("css/style.css", "body { color: black }\n"), text("a/b/c/deep.txt", "deep\n"),
      text("empty.txt", ""), {"path": "empty", "directory": True}]),
    ("the same file twice", [text("one", "same\n"), text("sub/two", "same\n")]),
    ("files of many blocks count with all of them",
     [generated("large.bin", 1048577), generated("larger.bin", 3000000),
      generated("sub/one-chunk.bin", 1048576), text("small.txt", "small\n")]),
    ("symbolic links are kept as links",
     [text("target.txt", "t\n"), {"path": "link.txt", "symlink": "target.txt"},
      {"path": "away", "symlink": "../elsewhere/é"}]),
    ("a name as long as file systems allow", [text("n" * 255, "long\n")]),
]

# The last size at which kubo still makes one node, and the first at which it spreads it.
NUMBERED = [("unixfs-v1-2025", 5041), ("unixfs-v1-2025", 5042),
            ("kubo-default", 6241), ("kubo-default", 6242)]
NAME_DIGITS = 8

# Directories that are spread over many nodes: so many files that hold their own names, which are
# numbers with so many digits. The last has shards three deep.
SPREAD = [("unixfs-v1-2025", 2000, 120), ("kubo-default", 2000, 120),
          ("unixfs-v1-2025", 12000, 8)]

# The exported directories: those from above by what they are about, and one in which a walk meets a
# block a second time before the first is done.
CARS = ["an empty directory", "one file", "directories in directories", "the same file twice",
        "files of many blocks count with all of them", "symbolic links are kept as links"]
MET_TWICE = [text("a/x", "same\n"), text("b", "other\n"), text("c", "same\n")]


class Kubo:
    """A repository of kubo's that adds under one profile."""

    def __init__(self, scratch, profile):
        own = ",unixfs-v1-2025" if profile == "unixfs-v1-2025" else ""
        self.env = {**os.environ, "IPFS_PATH": str(scratch / profile), "IPFS_TELEMETRY": "off"}
        self.ask("init", "--empty-repo", f"--profile=test{own}")
        self.options = [] if own or profile == "kubo-default" else [
            "--cid-version=1", "--raw-leaves",
            f"--chunker=size-{PROFILES[profile]['chunk_bytes']}",
            f"--max-file-links={PROFILES[profile]['links_max']}"]

    def ask(self, *words):
        return subprocess.run([IPFS, *words], env=self.env, check=True, capture_output=True).stdout

    def add(self, path, *options):
        added = self.ask("add", "-Q", "-r", "-H", "--pin=false", *self.options, *options, str(path))
        return added.decode().strip()

    def named(self, cid):
        size = self.ask("files", "stat", "--format=<cumulsize>", f"/ipfs/{cid}")
        return {"cid": cid, "dag_bytes": int(size)}

    def car(self, cid):
        return self.ask("dag", "export", "--progress=false", cid)

    def block(self, cid):
        return self.ask("block", "get", cid)

    def node(self, cid):
        """A node as kubo's own decoder sees it."""
        node = json.loads(self.ask("dag", "get", "--output-codec=dag-json", cid))
        padded = (node["Data"]["/"]["bytes"] if "Data" in node else "") + "==="
        links = [{"cid": link["Hash"]["/"], "name": link["Name"], "tsize": link["Tsize"]}
                 for link in node["Links"]]
        data = base64.b64decode(padded).hex() if "Data" in node else None
        return {"cid": cid, "hex": self.block(cid).hex(), "links": links, "data": data}


def write_generated(path, size):
    with open(path, "wb") as file:
        period = bytes(range(251)) * 4096
        for at in range(0, size, len(period)):
            file.write(period[:size - at])


def write_entries(folder, entries):
    folder.mkdir()
    for entry in entries:
        path = folder / entry["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        if "text" in entry:
            path.write_bytes(entry["text"].encode())
        elif "bytes" in entry:
            write_generated(path, entry["bytes"])
        elif "symlink" in entry:
            path.symlink_to(entry["symlink"])
        else:
            path.mkdir()


def dump(name, value):
    lines = json.dumps(value, indent=1, ensure_ascii=True)
    (HERE / name).write_text(lines + "\n")


def make_cids(scratch, kubos):
    files, texts, directories = [], [], []
    for size in SIZES:
        write_generated(scratch / "file", size)
        for profile, kubo in kubos.items():
            files.append({"bytes": size, "profile": profile,
                          **kubo.named(kubo.add(scratch / "file"))})
    for content in TEXTS:
        (scratch / "file").write_bytes(content.encode())
        for profile in ["unixfs-v1-2025", "kubo-default"]:
            cid = kubos[profile].add(scratch / "file")
            texts.append({"text": content, "profile": profile, **kubos[profile].named(cid)})
    for number, (about, entries) in enumerate(DIRECTORIES):
        folder = scratch / f"directory-{number}"
        write_entries(folder, entries)
        for profile, kubo in kubos.items():
            directories.append({"about": about, "profile": profile, "entries": entries,
                                **kubo.named(kubo.add(folder))})
    for profile, count in NUMBERED:
        folder = scratch / f"numbered-{profile}-{count}"
        write_entries(folder, [text(f"{i:0{NAME_DIGITS}}", "") for i in range(count)])
        cid = kubos[profile].add(folder)
        sharded = bool(kubos[profile].node(cid)["links"][0]["name"] != "0" * NAME_DIGITS)
        directories.append({
            "about": "as many empty files as one node holds" + (", and one more" * sharded),
            "profile": profile, "numbered": {"count": count, "name_digits": NAME_DIGITS},
            "sharded": sharded, **kubos[profile].named(cid)})
    dump("cids.json", {"rule": "byte i of a generated file is i mod 251", "profiles": PROFILES,
                       "files": files, "texts": texts, "directories": directories})


def make_nodes(scratch, kubos):
    ours, default = kubos["unixfs-v1-2025"], kubos["kubo-default"]
    nodes = []

    def node(about, kubo, cid, **unixfs):
        nodes.append({"about": about, **kubo.node(cid), "unixfs": unixfs})

    (scratch / "file").write_bytes(b"")
    node("an empty file, version 0", default, default.add(scratch / "file"),
         kind="file", filesize=0)
    (scratch / "file").write_bytes(b"Hello, world!\n")
    hello = b"Hello, world!\n".hex()
    node("a leaf with its bytes", default, default.add(scratch / "file"),
         kind="file", filesize=14, data=hello)
    (scratch / "file").chmod(0o640)
    os.utime(scratch / "file", ns=(0, 1_700_000_000_123_456_789))
    node("a leaf with mode and modification time", default,
         default.add(scratch / "file", "--preserve-mode", "--preserve-mtime"),
         kind="file", filesize=14, data=hello, mode=0o640,
         mtime={"seconds": 1_700_000_000, "nanos": 123_456_789})
    write_generated(scratch / "file", 2097153)
    node("a file of three raw leaves", ours, ours.add(scratch / "file"),
         kind="file", filesize=2097153, block_sizes=[1048576, 1048576, 1])
    write_generated(scratch / "file", 262145)
    node("a file of two leaves, version 0", default, default.add(scratch / "file"),
         kind="file", filesize=262145, block_sizes=[262144, 1])
    for number, (about, entries) in enumerate(DIRECTORIES):
        if about in ["an empty directory", "directories in directories",
                     "symbolic links are kept as links"]:
            for kubo in [ours, default]:
                node(about, kubo, kubo.add(scratch / f"directory-{number}"), kind="directory")
    links = ours.node(nodes[-2]["cid"])["links"]
    away = next(link["cid"] for link in links if link["name"] == "away")
    node("a symbolic link", ours, away, kind="symlink", data="../elsewhere/é".encode().hex())
    ours.ask("config", "Import.UnixFSHAMTDirectorySizeThreshold", "1B")
    sharded = ours.add(scratch / "directory-3")
    bitmap = shard_bitmap(ours.node(sharded))
    node("a directory that is spread over many nodes", ours, sharded,
         kind="hamt-shard", data=bitmap, hash_type=0x22, fanout=256)
    dump("nodes.json", {"nodes": nodes})


def numbered_files_folder(scratch, count, digits):
    folder = scratch / f"numbered-{count}-{digits}"
    if not folder.exists():
        names = [f"{i:0{digits}}" for i in range(count)]
        write_entries(folder, [text(name, name) for name in names])
    return folder


def make_sharded_directories(scratch, kubos):
    directories = []
    for profile, count, digits in SPREAD:
        kubo = kubos[profile]
        cid = kubo.add(numbered_files_folder(scratch, count, digits))
        blocks = kubo.ask("refs", "--recursive", "--unique", cid).split()
        found = f"{count // 2:0{digits}}"
        entry = kubo.ask("resolve", f"/ipfs/{cid}/{found}").decode().strip()
        directories.append({
            "profile": profile, "count": count, "name_digits": digits, **kubo.named(cid),
            "blocks": len(blocks) + 1, "found": {"name": found, "cid": entry[len("/ipfs/"):]}})
    dump("sharded_directories.json", {"rule": "so many files, whose names are numbers from 0 with so many digits,"
                                 " and that hold their own names", "directories": directories})


def make_cars(scratch, kubos):
    cars = []

    def car(profile, cid, **what):
        exported = kubos[profile].car(cid)
        as_hex = {"hex": exported.hex()} if len(exported) < 1000 else {}
        cars.append({"profile": profile, **what, "cid": cid, "bytes": len(exported),
                     "sha256": hashlib.sha256(exported).hexdigest(), **as_hex})

    write_entries(scratch / "met-twice", MET_TWICE)
    for profile in ["unixfs-v1-2025", "kubo-default"]:
        kubo = kubos[profile]
        for number, (about, entries) in enumerate(DIRECTORIES):
            if about in CARS:
                car(profile, kubo.add(scratch / f"directory-{number}"), entries=entries)
        car(profile, kubo.add(scratch / "met-twice"), entries=MET_TWICE)
        write_generated(scratch / "file", 3_000_000)
        car(profile, kubo.add(scratch / "file"), generated=3_000_000)
        car(profile, kubo.add(numbered_files_folder(scratch, 2000, 120)),
            sharded={"count": 2000, "name_digits": 120})
    dump("cars.json", {"cars": cars})


def shard_bitmap(node):
    """One bit for each slot that a link's name starts with, without leading zeros."""
    bits = sum(1 << int(link["name"][:2], 16) for link in node["links"])
    return bits.to_bytes((bits.bit_length() + 7) // 8, "big").hex()


def main():
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        kubos = {profile: Kubo(scratch, profile) for profile in PROFILES}
        make_cids(scratch, kubos)
        make_sharded_directories(scratch, kubos)
        make_cars(scratch, kubos)
        # Last: it tells a repository to spread every directory.
        make_nodes(scratch, kubos)


main()
