// Makes pages.json anew from docs/reference/protocols/live.md, with the cryptography of Node alone:
//   node tests/vectors/live/make.mjs > tests/vectors/live/pages.json

import { createHash, createPrivateKey, createPublicKey, sign } from 'node:crypto'

const SEED = Buffer.from(Array.from({ length: 32 }, (_, i) => i * 5 + 3))
const OTHER_SEED = Buffer.alloc(32, 0x77)
const MAGIC = Buffer.from('watchfire live 1')
const BEGAN = 1_790_000_000_000

const sha256 = (bytes) => createHash('sha256').update(bytes).digest()
const number = (n, bytes) => {
  const all = Buffer.alloc(8)
  all.writeBigUInt64BE(BigInt(n))
  return all.subarray(8 - bytes)
}
const text = (words) => {
  const bytes = Buffer.isBuffer(words) ? words : Buffer.from(words)
  return Buffer.concat([number(bytes.length, 2), bytes])
}

/** The PKCS #8 form of an Ed25519 key is these bytes and the seed. */
const privateKey = (seed) =>
  createPrivateKey({ key: Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), seed]), format: 'der', type: 'pkcs8' })
const publicKey = (seed) => createPublicKey(privateKey(seed)).export({ format: 'der', type: 'spki' }).subarray(-32)

const varint = (n) => (n < 128 ? Buffer.from([n]) : Buffer.concat([Buffer.from([(n & 127) | 128]), varint(Math.floor(n / 128))]))
const bytesField = (field, bytes) => Buffer.concat([Buffer.from([(field << 3) | 2]), varint(bytes.length), bytes])
const cidBytes = (codec, bytes) => Buffer.concat([Buffer.from([1, codec, 0x12, 32]), sha256(bytes)])
const raw = (bytes) => cidBytes(0x55, bytes)

function base32(bytes) {
  let [out, bits, held] = ['', 0, 0]
  for (const byte of bytes) {
    held = (held << 8) | byte
    bits += 8
    while (bits >= 5) {
      bits -= 5
      out += 'abcdefghijklmnopqrstuvwxyz234567'[(held >> bits) & 31]
    }
    held &= (1 << bits) - 1
  }
  if (bits > 0) out += 'abcdefghijklmnopqrstuvwxyz234567'[(held << (5 - bits)) & 31]
  return `b${out}`
}

/** A dag-pb node: its links, then its data. */
function node(links, data) {
  const fields = links.map(({ cid, name = '', size }) =>
    bytesField(
      2,
      Buffer.concat([
        bytesField(1, cid),
        bytesField(2, Buffer.from(name)),
        size === undefined ? Buffer.alloc(0) : Buffer.concat([Buffer.from([0x18]), varint(size)]),
      ]),
    ),
  )
  const bytes = Buffer.concat([...fields, bytesField(1, data)])
  return { bytes, cid: cidBytes(0x70, bytes) }
}

const beginningData = ({ seed = SEED, time = BEGAN, title = '', magic = MAGIC, kind = 0 }) =>
  Buffer.concat([magic, Buffer.from([kind]), publicKey(seed), number(time, 8), text(title)])
const beginning = (fields) => node([], beginningData(fields))

const linkedNumbers = (n) => Array.from({ length: 32 }, (_, bit) => n - 2 ** bit).filter((linked) => linked >= 0)

function entryData({ n, time = BEGAN + n * 1000, form = 0, name = '', magic = MAGIC }) {
  return Buffer.concat([magic, Buffer.from([1]), number(n, 4), number(time, 8), Buffer.from([form]), text(name)])
}

/** An entry with this content, after the nodes of a page: the beginning and the entries. */
function entry(nodes, fields) {
  const { n = nodes.length, words = `Entry ${nodes.length}`, ...others } = fields
  const content = Buffer.from(words)
  const links = [{ cid: raw(content), size: content.length }, ...linkedNumbers(n).map((linked) => ({ cid: nodes[linked].cid }))]
  return node(links, entryData({ n, ...others }))
}

function head(page, n, last, { seed = SEED, magic = 'watchfire head 1' } = {}) {
  const signed = Buffer.concat([Buffer.from(magic), page.cid.subarray(4), number(n, 4), last.cid.subarray(4)])
  return Buffer.concat([signed, sign(null, signed, privateKey(seed))])
}

function page(title, entries) {
  const nodes = [beginning({ title })]
  for (const fields of entries) nodes.push(entry(nodes, fields))
  return nodes
}

const ENTRIES = [
  { words: 'The first entry' },
  { words: 'a picture', form: 1, name: 'sunset.png' },
  ...Array.from({ length: 7 }, (_, i) => ({ words: `Entry ${i + 3}` })),
]
const nodes = page('Sunday 🔥', ENTRIES)
const [first, ...entries] = nodes
const hex = (bytes) => bytes.toString('hex')
const cidOf = (node) => base32(node.cid)

// The other branch continues the page from entry 5 on.
const other = nodes.slice(0, 5)
for (let n = 5; n <= 11; n += 1) other.push(entry(other, { words: `Another entry ${n}` }))

const content = { cid: raw(Buffer.from('x')), size: 1 }
const earlier = (n) => linkedNumbers(n).map((linked) => ({ cid: nodes[linked].cid }))
const changed = (bytes, at) => {
  const copy = Buffer.from(bytes)
  copy[at] ^= 1
  return copy
}
const goodHead = head(first, 9, entries[8])

const refusedBeginnings = [
  ['a file', node([], Buffer.from('0802120178', 'hex')).bytes, 'NotLive'],
  ['no node', Buffer.from('text'), 'NotLive'],
  ['an entry', entries[0].bytes, 'NotLive'],
  ['another version', beginning({ magic: Buffer.from('watchfire live 2') }).bytes, 'UnsupportedVersion'],
  ['truncated', node([], beginningData({}).subarray(0, 56)).bytes, 'Truncated'],
  ['bytes at the end', node([], Buffer.concat([beginningData({}), Buffer.alloc(1)])).bytes, 'TrailingBytes'],
  ['a title that is not UTF-8', beginning({ title: Buffer.from([0xff]) }).bytes, 'NotUtf8'],
  ['a long title', beginning({ title: 'x'.repeat(256) }).bytes, 'NameTooLong'],
]
const refusedEntries = [
  ['the beginning', first.bytes, 'NotLive'],
  [
    'another version',
    node([content, ...earlier(1)], entryData({ n: 1, magic: Buffer.from('watchfire live 2') })).bytes,
    'UnsupportedVersion',
  ],
  ['number 0', node([content], entryData({ n: 0 })).bytes, 'Number'],
  ['a number above the limit', node([content], entryData({ n: 10_001 })).bytes, 'Number'],
  ['an unknown form', entry(nodes.slice(0, 1), { form: 2 }).bytes, 'UnknownForm'],
  ['a text with a name', entry(nodes.slice(0, 1), { name: 'a' }).bytes, 'TextWithName'],
  ['a text of several blocks', node([{ cid: first.cid, size: 1 }, ...earlier(1)], entryData({ n: 1 })).bytes, 'UnsupportedCid'],
  ['no links', node([], entryData({ n: 1 })).bytes, 'Links'],
  ['a link too few', node([content, ...earlier(3).slice(1)], entryData({ n: 3 })).bytes, 'Links'],
  ['a link too many', node([content, ...earlier(3), ...earlier(1)], entryData({ n: 3 })).bytes, 'Links'],
  ['content without a size', node([{ cid: content.cid }, ...earlier(1)], entryData({ n: 1 })).bytes, 'Links'],
  ['a link with a name', node([content, { ...earlier(1)[0], name: 'x' }], entryData({ n: 1 })).bytes, 'Links'],
  ['an earlier node of another codec', node([content, { cid: raw(Buffer.from('x')) }], entryData({ n: 1 })).bytes, 'UnsupportedCid'],
  [
    'an identity CID',
    node([{ cid: Buffer.from([1, 0x55, 0, 1, 120]), size: 1 }, ...earlier(1)], entryData({ n: 1 })).bytes,
    'UnsupportedCid',
  ],
  ['a long node', node([content, ...earlier(1)], Buffer.concat([entryData({ n: 1 }), Buffer.alloc(4096)])).bytes, 'NodeTooLong'],
]
const refusedHeads = [
  ['short', goodHead.subarray(0, 147), 'HeadLength'],
  ['empty', Buffer.alloc(0), 'HeadLength'],
  ['not a head', Buffer.concat([Buffer.alloc(1), goodHead.subarray(1)]), 'NotLive'],
  ['another version', head(first, 9, entries[8], { magic: 'watchfire head 2' }), 'UnsupportedVersion'],
  ['another page', head(beginning({ title: 'other' }), 9, entries[8]), 'OtherPage'],
  ['number 0', head(first, 0, entries[8]), 'Number'],
  ['a number above the limit', head(first, 10_001, entries[8]), 'Number'],
  ['another key', head(first, 9, entries[8], { seed: OTHER_SEED }), 'Signature'],
  ['a changed entry', changed(goodHead, 60), 'Signature'],
  ['a changed signature', changed(goodHead, 147), 'Signature'],
]
/** A field of a Bitswap message with a number of up to 16,383. */
const messageField = (field, bytes) => Buffer.concat([varint((field << 3) | 2), varint(bytes.length), bytes])
const headField = (bytes) => messageField(1001, bytes)
const vouchedField = (bytes) => messageField(1002, bytes)
const lastEntry = entries[8]
const lastWords = Buffer.from('Entry 9')
const olderHead = head(first, 8, entries[7])
const filler = (bytes) => Buffer.alloc(bytes, 7)
/** An empty wantlist, as messages of Bitswap have it. */
const wantlist = Buffer.from([0x0a, 0])

/**
 * Messages, and what a peer reads of them: the heads, and the blocks that their only head vouches for.
 * @type {[about: string, fields: Buffer[], heads: Buffer[], vouched: Buffer[]][]}
 */
const messages = [
  ['a head', [wantlist, headField(goodHead)], [goodHead], []],
  ['two heads, of a page that has split', [headField(goodHead), headField(olderHead)], [goodHead, olderHead], []],
  ['a third head, which is ignored', [headField(goodHead), headField(olderHead), headField(goodHead)], [goodHead, olderHead], []],
  ['a head with the node of its entry', [headField(goodHead), vouchedField(lastEntry.bytes)], [goodHead], [lastEntry.bytes]],
  [
    'a head with the node of its entry and the content',
    [headField(goodHead), vouchedField(lastEntry.bytes), vouchedField(lastWords)],
    [goodHead],
    [lastEntry.bytes, lastWords],
  ],
  ['blocks before their head', [vouchedField(lastEntry.bytes), headField(goodHead)], [goodHead], [lastEntry.bytes]],
  [
    'a third block, which is ignored',
    [headField(goodHead), vouchedField(lastEntry.bytes), vouchedField(lastWords), vouchedField(filler(1))],
    [goodHead],
    [lastEntry.bytes, lastWords],
  ],
  [
    'blocks of two heads, which are ignored',
    [headField(goodHead), headField(olderHead), vouchedField(lastEntry.bytes)],
    [goodHead, olderHead],
    [],
  ],
  ['blocks without a head, which are ignored', [vouchedField(lastEntry.bytes)], [], []],
  [
    'blocks of 8,192 bytes together',
    [headField(goodHead), vouchedField(filler(8000)), vouchedField(filler(192))],
    [goodHead],
    [filler(8000), filler(192)],
  ],
  [
    'blocks of 8,193 bytes together, which are ignored',
    [headField(goodHead), vouchedField(filler(8000)), vouchedField(filler(193))],
    [goodHead],
    [],
  ],
  ['a message without heads', [wantlist], [], []],
]
const refused = (list) => list.map(([why, bytes, error]) => ({ why, hex: hex(bytes), error }))
const described = (nodes) =>
  nodes.map((node, at) => ({
    number: at + 1,
    time_ms: BEGAN + (at + 1) * 1000,
    form: ENTRIES[at].form === 1 ? 'file' : 'text',
    name: ENTRIES[at].name ?? '',
    content: base32(raw(Buffer.from(ENTRIES[at].words))),
    content_bytes: Buffer.byteLength(ENTRIES[at].words),
    cid: cidOf(node),
    hex: hex(node.bytes),
  }))

console.log(
  JSON.stringify(
    {
      seed: hex(SEED),
      key: hex(publicKey(SEED)),
      beginning: { title: 'Sunday 🔥', time_ms: BEGAN, cid: cidOf(first), hex: hex(first.bytes) },
      entries: described(entries),
      heads: entries.map((last, at) => hex(head(first, at + 1, last))),
      other_branch: {
        from: 5,
        nodes: other.slice(5).map((node) => ({ cid: cidOf(node), hex: hex(node.bytes) })),
        head: hex(head(first, 11, other[11])),
      },
      refused_beginnings: refused(refusedBeginnings),
      refused_entries: refused(refusedEntries),
      refused_heads: refused(refusedHeads),
      messages: messages.map(([about, fields, heads, vouched]) => ({
        about,
        hex: hex(Buffer.concat(fields)),
        heads: heads.map(hex),
        vouched: vouched.map(hex),
      })),
    },
    null,
    1,
  ),
)
