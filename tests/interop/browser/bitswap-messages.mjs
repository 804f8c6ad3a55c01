// Bitswap messages between browsers, encoded and decoded by hand from the specification. So a mistake
// that both ends of our own code share is still found.

import { createHash } from 'node:crypto'

const RAW = 0x55
const DAG_PB = 0x70
const CHUNK_BYTES = 1_048_576

/** Splits a file of up to 1 GiB into its blocks: leaves of 1 MiB and, above several, one node. */
export function blocksOf(file) {
  const { top, blocks } = fileOf(file)
  return { root: cidText(top.cid), blocks: byCid(blocks) }
}

/** The blocks of a folder: its own first, then those of its files. `files` has a buffer, or a folder of such, for each name. */
export function folderBlocksOf(files) {
  const { top, blocks } = folderOf(files)
  return { root: cidText(top.cid), blocks: byCid(blocks) }
}

function folderOf(files) {
  const names = Object.keys(files).sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
  const entries = names.map((name) => ({ name, ...(Buffer.isBuffer(files[name]) ? fileOf(files[name]) : folderOf(files[name])) }))
  const top = nodeOf(
    entries.map(({ name, top, dagBytes }) => ({ cid: top.cid, name, dagBytes })),
    number(1, 1),
  )
  return {
    top,
    blocks: [top, ...entries.flatMap(({ blocks }) => blocks)],
    dagBytes: entries.reduce((sum, { dagBytes }) => sum + dagBytes, top.bytes.length),
  }
}

function fileOf(file) {
  const parts = []
  for (let at = 0; at < Math.max(1, file.length); at += CHUNK_BYTES) {
    parts.push(leafOf(file.subarray(at, at + CHUNK_BYTES)))
  }
  const [only] = parts
  if (parts.length === 1) return { top: only, blocks: parts, dagBytes: only.bytes.length }
  const lengths = parts.map(({ bytes }) => bytes.length)
  const top = fileNodeOf(parts, lengths)
  return { top, blocks: [...parts, top], dagBytes: file.length + top.bytes.length }
}

/** The node of a file with these leaves. */
function fileNodeOf(leaves, lengths) {
  const links = leaves.map(({ cid }, i) => ({ cid, name: '', dagBytes: lengths[i] }))
  const length = lengths.reduce((sum, each) => sum + each, 0)
  return nodeOf(links, Buffer.concat([number(1, 2), number(3, length), ...lengths.map((each) => number(4, each))]))
}

/** The blocks of a file that is too large for memory: `leafAt(i)` makes a leaf of `CHUNK_BYTES` each time when it is needed. */
export function blocksOfLeaves(count, leafAt) {
  const { parts, top } = fileOfLeaves(count, leafAt)
  return { root: cidText(top.cid), blocks: byCid([...parts, top]) }
}

/** The blocks of a folder with such a file. `beside` has the content of further files by name, each of one block. */
export function folderOfLeaves(name, count, leafAt, beside) {
  const { parts, top } = fileOfLeaves(count, leafAt)
  const small = Object.entries(beside).map(([name, content]) => ({ name, leaf: leafOf(content) }))
  const links = [
    { name, cid: top.cid, dagBytes: count * CHUNK_BYTES + top.bytes.length },
    ...small.map(({ name, leaf }) => ({ name, cid: leaf.cid, dagBytes: leaf.bytes.length })),
  ]
  links.sort((a, b) => Buffer.compare(Buffer.from(a.name), Buffer.from(b.name)))
  const folder = nodeOf(links, number(1, 1))
  return { root: cidText(folder.cid), blocks: byCid([...parts, top, ...small.map(({ leaf }) => leaf), folder]) }
}

function fileOfLeaves(count, leafAt) {
  const parts = Array.from({ length: count }, (_, i) => ({
    cid: cidOf(RAW, leafAt(i)),
    get bytes() {
      return leafAt(i)
    },
  }))
  const top = fileNodeOf(
    parts,
    parts.map(() => CHUNK_BYTES),
  )
  return { parts, top }
}

/** Leaves by their bytes. A huge file may be the same buffer over and over, which is hashed once. */
const leaves = new WeakMap()

function leafOf(bytes) {
  const leaf = leaves.get(bytes) ?? { cid: cidOf(RAW, bytes), bytes }
  leaves.set(bytes, leaf)
  return leaf
}

/** A node with links, and its UnixFS message. */
function nodeOf(links, unixfs) {
  const encoded = links.map(({ cid, name, dagBytes }) =>
    bytes(2, Buffer.concat([bytes(1, cid), bytes(2, Buffer.from(name)), number(3, dagBytes)])),
  )
  const node = Buffer.concat([...encoded, bytes(1, unixfs)])
  return { cid: cidOf(DAG_PB, node), bytes: node }
}

function byCid(blocks) {
  return new Map(blocks.map((block) => [block.cid.toString('hex'), block]))
}

function cidOf(codec, content) {
  return Buffer.concat([Buffer.from([1, codec, 0x12, 32]), createHash('sha256').update(content).digest()])
}

/** Formats a CIDv1 as text. */
export function cidText(cid) {
  const letters = 'abcdefghijklmnopqrstuvwxyz234567'
  let text = 'b'
  let bits = 0
  let held = 0
  for (const byte of cid) {
    held = (held << 8) | byte
    for (bits += 8; bits >= 5; bits -= 5) text += letters[(held >>> (bits - 5)) & 31]
    held &= (1 << bits) - 1
  }
  return bits > 0 ? text + letters[(held << (5 - bits)) & 31] : text
}

/** The wants of a message: `{ cid, cancel, have, dontHave, priority }`. */
export function wantsIn(message) {
  const wantlist = fields(message).find(({ number }) => number === 1)?.value
  if (wantlist === undefined) return []
  return fields(wantlist)
    .filter(({ number }) => number === 1)
    .map(({ value: entry }) => {
      const of = new Map(fields(entry).map(({ number, value }) => [number, value]))
      return { cid: of.get(1), cancel: of.get(3) === 1, have: of.get(4) === 1, dontHave: of.get(5) === 1, priority: of.get(2) ?? 0 }
    })
}

/** A message that wants these blocks. */
export function wantMessage(cids) {
  const entries = cids.map((cid) => bytes(1, Buffer.concat([bytes(1, cid), number(2, 1), number(5, 1)])))
  return bytes(1, Buffer.concat(entries))
}

/** A message whose wants belong to a span of a distributed trace. */
export function tracedMessage(message, traceparent) {
  return Buffer.concat([message, bytes(1000, Buffer.from(traceparent))])
}

/** A message with these blocks, each with the prefix of its CID. */
export function blockMessage(blocks) {
  return Buffer.concat(blocks.map(({ cid, bytes: content }) => bytes(3, Buffer.concat([bytes(1, cid.subarray(0, 4)), bytes(2, content)]))))
}

/** A message that states for each CID whether the block is present. */
export function presenceMessage(cids, isHere) {
  return Buffer.concat(cids.map((cid) => bytes(4, Buffer.concat([bytes(1, cid), number(2, isHere ? 0 : 1)]))))
}

// A minimal Protobuf codec.

function varint(value) {
  const out = []
  for (; value > 127; value = Math.floor(value / 128)) out.push((value % 128) | 128)
  return Buffer.from([...out, value])
}

function number(field, value) {
  return Buffer.concat([varint(field * 8), varint(value)])
}

function bytes(field, value) {
  return Buffer.concat([varint(field * 8 + 2), varint(value.length), value])
}

function fields(message) {
  const found = []
  let at = 0
  const read = () => {
    let value = 0
    for (let shift = 1; ; shift *= 128) {
      const byte = message[at++]
      value += (byte & 127) * shift
      if (byte < 128) return value
    }
  }
  while (at < message.length) {
    const key = read()
    const number = Math.floor(key / 8)
    if (key % 8 === 0) found.push({ number, value: read() })
    else {
      const length = read()
      const end = at + length
      found.push({ number, value: message.subarray(at, end) })
      at = end
    }
  }
  return found
}
