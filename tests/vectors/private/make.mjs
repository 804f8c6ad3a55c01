// Makes pages.json anew from docs/reference/protocols/private-pages.md, with the cryptography of Node alone:
//   node tests/vectors/private/make.mjs > tests/vectors/private/pages.json

import { createCipheriv, createHash, hkdfSync } from 'node:crypto'

const KEY = Buffer.from(Array.from({ length: 32 }, (_, i) => i * 7 + 1))
const OTHER_KEY = Buffer.alloc(32, 0xee)
const HEADER_BYTES = 64
const TAG_BYTES = 16
const MIB = 1 << 20
const FILE = 0
const DIRECTORY = 1
const SYMLINK = 2

const sha256 = (bytes) => createHash('sha256').update(bytes).digest()
const u16 = (n) => Buffer.from([n >> 8, n & 255])
const u32 = (n) => Buffer.from([n >>> 24, (n >> 16) & 255, (n >> 8) & 255, n & 255])
const u64 = (n) => {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64BE(BigInt(n))
  return bytes
}
const text = (words) => Buffer.concat([u16(Buffer.byteLength(words)), Buffer.from(words)])
const pattern = (size) => Buffer.from(Array.from({ length: size }, (_, i) => i % 251))

function bytesOf(entry) {
  return entry.text === undefined ? pattern(entry.bytes ?? 0) : Buffer.from(entry.text)
}

function indexOf({ name, is_directory, entries }) {
  return Buffer.concat([
    Buffer.from([is_directory ? 1 : 0]),
    text(name),
    u32(entries.length),
    ...entries.map((entry) =>
      Buffer.concat([
        Buffer.from([{ file: FILE, directory: DIRECTORY, symlink: SYMLINK }[entry.kind]]),
        text(entry.path),
        u64(bytesOf(entry).length),
      ]),
    ),
  ])
}

/** Padmé, from its paper; and never less than 4096. */
function padded(bytes) {
  if (bytes <= 4096) return 4096
  const e = BigInt(BigInt(bytes).toString(2).length - 1)
  const s = BigInt(e.toString(2).length)
  const mask = (1n << (e - s)) - 1n
  return Number((BigInt(bytes) + mask) & ~mask)
}

function seal(key, page) {
  const index = indexOf(page)
  const body = Buffer.concat([u32(index.length), index, ...page.entries.map(bytesOf)])
  const content = Buffer.concat([body, Buffer.alloc(padded(body.length) - body.length)])
  const prefix = Buffer.concat([Buffer.from('watchfire seal 1'), u32(page.record_bytes), Buffer.alloc(12)])
  const expand = (info) => Buffer.from(hkdfSync('sha256', key, prefix, info, 32))
  const header = Buffer.concat([prefix, expand('watchfire private commitment')])
  const recordsKey = expand('watchfire private records')
  const pieces = []
  for (let at = 0; at < content.length; ) {
    const end = at + page.record_bytes - TAG_BYTES - (at === 0 ? HEADER_BYTES : 0)
    pieces.push(content.subarray(at, end))
    at = end
  }
  const records = pieces.map((piece, n) => {
    const nonce = Buffer.concat([Buffer.alloc(7), u32(n), Buffer.from([n === pieces.length - 1 ? 1 : 0])])
    const cipher = createCipheriv('aes-256-gcm', recordsKey, nonce)
    return Buffer.concat([cipher.update(piece), cipher.final(), cipher.getAuthTag()])
  })
  return Buffer.concat([header, ...records])
}

// CIDs, by hand: raw leaves of 1 MiB, one node above them.

function base32(bytes) {
  let bits = ''
  for (const byte of bytes) bits += byte.toString(2).padStart(8, '0')
  const fives = bits.match(/.{1,5}/g) ?? []
  return fives.map((five) => 'abcdefghijklmnopqrstuvwxyz234567'[Number.parseInt(five.padEnd(5, '0'), 2)]).join('')
}
const cidBytes = (codec, block) => Buffer.concat([Buffer.from([1, codec, 0x12, 32]), sha256(block)])
function varint(n) {
  const bytes = []
  for (; n > 127; n = Math.floor(n / 128)) bytes.push((n % 128) | 128)
  return Buffer.from([...bytes, n])
}
const field = (number, bytes) => Buffer.concat([varint(number * 8 + 2), varint(bytes.length), bytes])
const number = (at, n) => Buffer.concat([varint(at * 8), varint(n)])
function cidOf(bytes) {
  const leaves = []
  for (let at = 0; at < bytes.length; at += MIB) leaves.push(bytes.subarray(at, at + MIB))
  if (leaves.length === 1) return `b${base32(cidBytes(0x55, leaves[0]))}`
  const links = leaves.map((leaf) =>
    field(2, Buffer.concat([field(1, cidBytes(0x55, leaf)), field(2, Buffer.alloc(0)), number(3, leaf.length)])),
  )
  const unixfs = Buffer.concat([number(1, 2), number(3, bytes.length), ...leaves.map((leaf) => number(4, leaf.length))])
  return `b${base32(cidBytes(0x70, Buffer.concat([...links, field(1, unixfs)])))}`
}

const file = (path, rest) => ({ path, kind: 'file', ...rest })
const pages = [
  {
    page: 'a text',
    record_bytes: MIB,
    name: 'hello.md',
    is_directory: false,
    entries: [file('', { text: '# Hello\n\nNobody else reads this: 日記 😀\n' })],
  },
  { page: 'an empty file', record_bytes: MIB, name: '', is_directory: false, entries: [file('', { bytes: 0 })] },
  { page: 'an empty directory', record_bytes: MIB, name: 'nothing', is_directory: true, entries: [] },
  {
    page: 'a directory',
    record_bytes: 4096,
    name: 'trip',
    is_directory: true,
    entries: [
      file('day 1.md', { text: 'sunny\n' }),
      { path: 'empty', kind: 'directory' },
      file('photos/a.bin', { bytes: 14_000 }),
      { path: 'photos/last', kind: 'symlink', text: 'a.bin' },
      file('photos-2/日.txt', { text: '' }),
      file('zero', { bytes: 1 }),
    ],
  },
  { page: 'two records', record_bytes: 4096, name: 'n', is_directory: false, entries: [file('', { bytes: 5000 })] },
  { page: 'a full record', record_bytes: 8192, name: '', is_directory: false, entries: [file('', { bytes: 8064 - 22 })] },
  { page: 'several leaves', record_bytes: MIB, name: 'film.bin', is_directory: false, entries: [file('', { bytes: 3_000_000 })] },
]

const sealed = new Map(pages.map((page) => [page.page, seal(KEY, page)]))
const twoRecords = 'two records'
const length = sealed.get(twoRecords).length
const index = (is_directory, ...entries) => {
  const bytes = Buffer.concat([Buffer.from([is_directory]), text('n'), u32(entries.length), ...entries])
  return Buffer.concat([u32(bytes.length), bytes]).toString('hex')
}
const raw = (kind, path, bytes) => Buffer.concat([Buffer.from([kind]), text(path), u64(bytes)])

const vectors = {
  key: KEY.toString('hex'),
  key_in_link: KEY.toString('base64url'),
  padded: [0, 1, 4096, 4097, 4352, 4353, 65_535, 65_536, 65_537, 1_000_000, 1_048_576, 123_456_789, 4_294_967_297, 1_099_511_627_777].map(
    (bytes) => [bytes, padded(bytes)],
  ),
  pages: pages.map((page) => {
    const bytes = sealed.get(page.page)
    return {
      ...page,
      cid: cidOf(bytes),
      sealed_bytes: bytes.length,
      sealed_sha256: sha256(bytes).toString('hex'),
      starts: bytes.subarray(0, 96).toString('hex'),
      ends: bytes.subarray(-16).toString('hex'),
    }
  }),
  refused: [
    { why: 'another key', page: twoRecords, key: OTHER_KEY.toString('hex'), error: 'WrongKey' },
    { why: 'a changed commitment', page: twoRecords, flip: 63, error: 'WrongKey' },
    { why: 'a changed first record', page: twoRecords, flip: 64, error: 'Changed', record: 0 },
    { why: 'a changed tag of the first record', page: twoRecords, flip: 4095, error: 'Changed', record: 0 },
    { why: 'a changed second record', page: twoRecords, flip: 4096, error: 'Changed', record: 1 },
    { why: 'a changed last tag', page: twoRecords, flip: length - 1, error: 'Changed', record: 1 },
    { why: 'records that changed places', page: 'a directory', swap: [1, 2], error: 'Changed', record: 1 },
    { why: 'the last record missing', page: twoRecords, cut: 4096, error: 'Length' },
    { why: 'a record missing, and a length that could be', page: 'a directory', cut: 7936 + 64 + 32, error: 'Length' },
    { why: 'the last byte missing', page: twoRecords, cut: length - 1, error: 'Length' },
    { why: 'a byte too many', page: twoRecords, append: '00', error: 'Length' },
    { why: 'nothing but a header', page: twoRecords, cut: 64, error: 'Length' },
    { why: 'another beginning', page: twoRecords, flip: 0, error: 'NotPrivate' },
    { why: 'a later version', page: twoRecords, flip: 15, error: 'Version' },
    { why: 'records of a size that is none', page: twoRecords, flip: 19, error: 'Version' },
    { why: 'something in the reserve', page: twoRecords, flip: 31, error: 'Version' },
  ],
  index_refused: [
    { why: 'a step up', hex: index(1, raw(0, '../x', 1)), error: 'Path' },
    { why: 'a step up on the way', hex: index(1, raw(0, 'a/../../x', 1)), error: 'Path' },
    { why: 'an absolute path', hex: index(1, raw(0, '/etc/passwd', 1)), error: 'Path' },
    { why: 'no name', hex: index(1, raw(0, '', 1)), error: 'Path' },
    { why: 'a NUL in a name', hex: index(1, raw(0, 'a\0b', 1)), error: 'Path' },
    { why: 'too many names', hex: index(1, raw(0, `${'x/'.repeat(32)}x`, 1)), error: 'Path' },
    { why: 'a name that is not UTF-8', hex: index(1, Buffer.concat([Buffer.from([0, 0, 1, 0xff]), u64(1)])), error: 'Utf8' },
    { why: 'the same name twice', hex: index(1, raw(0, 'a', 1), raw(0, 'a', 1)), error: 'Order' },
    { why: 'names out of order', hex: index(1, raw(0, 'b', 1), raw(0, 'a', 1)), error: 'Order' },
    { why: 'something within a file', hex: index(1, raw(0, 'a', 1), raw(0, 'a/b', 1)), error: 'Order' },
    { why: 'a directory with bytes', hex: index(1, raw(1, 'a', 1)), error: 'Size' },
    { why: 'a symbolic link to nothing', hex: index(1, raw(2, 'a', 0)), error: 'Size' },
    { why: 'more bytes than can be counted', hex: index(1, raw(0, 'a', 2n ** 50n + 1n)), error: 'Size' },
    { why: 'sizes that overflow', hex: index(1, raw(0, 'a', 2n ** 64n - 1n), raw(0, 'b', 2n ** 64n - 1n)), error: 'Size' },
    { why: 'an unknown kind', hex: index(1, raw(3, 'a', 1)), error: 'Kind' },
    { why: 'an unknown kind of page', hex: index(2), error: 'Kind' },
    { why: 'one file that are two', hex: index(0, raw(0, '', 1), raw(0, '', 1)), error: 'NotOneFile' },
    { why: 'one file with a path', hex: index(0, raw(0, 'a', 1)), error: 'NotOneFile' },
    { why: 'more entries than are there', hex: index(1, raw(0, 'a', 1)), cut: 1, error: 'Cut' },
    { why: 'a million entries', hex: `00000008${'01'}0000${'000f4240'}00`, error: 'TooManyEntries' },
    { why: 'a length beyond all bounds', hex: 'ffffffff', error: 'TooLong' },
    { why: 'something behind it', hex: `${index(1)}`, append: '00', error: 'Trailing' },
  ].map(({ cut = 0, append = '', hex, ...rest }) => ({ ...rest, hex: hex.slice(0, hex.length - 2 * cut) + append })),
}

process.stdout.write(`${JSON.stringify(vectors, null, 1)}\n`)
