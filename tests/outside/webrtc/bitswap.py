"""Messages of Bitswap, and the blocks of a file, by hand from the specifications."""

import base64
import hashlib

RAW, DAG_PB = 0x55, 0x70
SHA2_256_PREFIX = bytes([0x12, 32])


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def number(field, value):
    return varint(field << 3) + varint(value)


def data(field, content):
    return varint(field << 3 | 2) + varint(len(content)) + content


def fields(message):
    """The fields of a message, as pairs of number and value."""
    at = 0

    def read():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = read()
        value = read()
        if key & 7 == 2:
            value, at = message[at : at + value], at + value
        yield key >> 3, value


def of(message, field):
    return [value for name, value in fields(message) if name == field]


def cid_of(text):
    """The bytes of a CID in base32."""
    padded = text[1:].upper()
    return base64.b32decode(padded + "=" * (-len(padded) % 8))


def cid_with(prefix, block):
    """The CID of a block, with the version, the codec and the hash function of a prefix."""
    if prefix[2:] != SHA2_256_PREFIX:
        raise ValueError(f"another hash function: {prefix.hex()}")
    return prefix + hashlib.sha256(block).digest()


def wants(cids):
    """A message that wants these blocks, or DONT_HAVE."""
    return data(1, b"".join(data(1, data(1, cid) + number(2, 1) + number(5, 1)) for cid in cids))


def blocks_in(message):
    """The blocks of a message by their CIDs, which are computed from the bytes."""
    entries = of(message, 3)
    return {cid_with(*of(entry, 1), *of(entry, 2)): of(entry, 2)[0] for entry in entries}


def absent_in(message):
    """The CIDs for which the peer does not have the block."""
    return [of(entry, 1)[0] for entry in of(message, 4) if of(entry, 2) == [1]]


def links_of(cid, block):
    """The CIDs below a block."""
    return [of(link, 1)[0] for link in of(block, 2)] if cid[1] == DAG_PB else []
