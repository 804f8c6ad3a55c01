import {
  bytesOf,
  cidOfBlock,
  ContentError,
  DAG_PB,
  decodeCid,
  decodeFields,
  decodePrefix,
  encodeCid,
  encodePrefix,
  int32Of,
  MessageWriter,
  SHA2_256,
  uintOf,
  utf8,
  type Bytes,
  type Cid,
  type CidPrefix,
} from '../content/index.ts'

/** The longest message that implementations read, in bytes. A longer message is rejected. */
export const MESSAGE_BYTES_MAX = 4 << 20
/** The longest block that implementations exchange, in bytes. */
export const BLOCK_BYTES_MAX = 2 << 20
/** Entries of one kind read from one message. Further entries are skipped and counted. */
export const ENTRIES_MAX = 1024
/** The field that names the span of a distributed trace which the wants belong to. Other implementations skip it. */
const TRACE_FIELD = 1000
/** The field of the heads of a live page, see docs/reference/protocols/live.md, and the most of them in a message. */
const HEADS_FIELD = 1001
const HEADS_MAX = 2
/** The field of the blocks that the head of a message vouches for, and the most of them. */
const VOUCHED_FIELD = 1002
const VOUCHED_MAX = 2

/** A Bitswap message. Its wants change the wantlist that was sent before. */
export interface Message {
  /** Whether these wants replace the wantlist instead of changing it. */
  readonly full: boolean
  readonly wants: readonly WantEntry[]
  readonly presences: readonly Presence[]
  /** Bytes of blocks that the sender still has queued for the receiver. */
  readonly pendingBytes: number
}

export interface DecodedMessage extends Message {
  readonly blocks: readonly ReceivedBlock[]
  /** The heads of a live page, not verified. */
  readonly heads: readonly Bytes[]
  /** Blocks that the head vouches for, not verified. */
  readonly vouched: readonly Bytes[]
  /** Wants and presences beyond `ENTRIES_MAX`, or with a hash function that cannot be checked. */
  readonly skippedEntries: number
  /** Blocks beyond `ENTRIES_MAX`. */
  readonly skippedBlocks: number
}

export interface WantEntry {
  readonly cid: Cid
  readonly kind: 'block' | 'have'
  readonly cancel: boolean
  /** Higher is more urgent. */
  readonly priority: number
  /** Whether the sender wants a DONT_HAVE if the block is absent. */
  readonly sendDontHave: boolean
}

export interface Presence {
  readonly cid: Cid
  readonly hasBlock: boolean
}

/** A received block. Hashing its data gives its CID. */
export interface ReceivedBlock {
  readonly prefix: CidPrefix
  readonly data: Bytes
}

/** A block whose data matches its CID. */
export interface Block {
  readonly cid: Cid
  readonly data: Bytes
}

/** A received message with hashed blocks. */
export interface ReceivedMessage {
  readonly message: Message
  /** The blocks under the CIDs that their data hashes to. */
  readonly blocks: readonly Block[]
  /** Wants and presences that were skipped. */
  readonly skippedEntries: number
  /** Blocks that were skipped: too many, or with a hash function that cannot be checked. */
  readonly skippedBlocks: number
}

/** The heads of a live page in a message, and the blocks of the newest entry, which the head vouches for. */
export interface HeadMessage {
  readonly heads: readonly Bytes[]
  readonly vouched: readonly Bytes[]
}

/** A message with the heads that a peer sends with it. */
export interface ReceivedWithHeads extends ReceivedMessage, HeadMessage {}

/** The reason why a message was rejected. */
export class MessageError extends Error {
  override name = 'MessageError'
}

/** `trace` is the text of a W3C trace context, for a message whose wants belong to a span. */
export function encodeMessage(message: Message, blocks: readonly Block[] = [], trace: string | null = null): Bytes {
  const wantlist = new MessageWriter()
  for (const want of message.wants) wantlist.message(1, encodeEntry(want))
  if (message.full) wantlist.uint(2, 1)
  // Older kubo versions crash without a wantlist, even an empty one.
  const writer = new MessageWriter().message(1, wantlist)
  for (const { cid, data } of blocks) {
    const block = new MessageWriter().bytes(1, encodePrefix(cid))
    writer.message(3, data.length > 0 ? block.bytes(2, data) : block)
  }
  for (const { cid, hasBlock } of message.presences) {
    const presence = new MessageWriter().bytes(1, encodeCid(cid))
    writer.message(4, hasBlock ? presence : presence.uint(2, 1))
  }
  if (message.pendingBytes > 0) writer.uint(5, Math.min(message.pendingBytes, 0x7fff_ffff))
  if (trace !== null) writer.bytes(TRACE_FIELD, utf8(trace))
  return writer.finish()
}

/** A message with heads of a live page, and blocks that the head vouches for. */
export function encodeHeads(heads: readonly Bytes[], vouched: readonly Bytes[] = []): Bytes {
  const writer = new MessageWriter().message(1, new MessageWriter())
  for (const head of heads) writer.bytes(HEADS_FIELD, head)
  for (const block of vouched) writer.bytes(VOUCHED_FIELD, block)
  return writer.finish()
}

function encodeEntry(want: WantEntry): MessageWriter {
  const entry = new MessageWriter().bytes(1, encodeCid(want.cid))
  if (want.priority !== 0) entry.int32(2, want.priority)
  if (want.cancel) entry.uint(3, 1)
  if (want.kind === 'have') entry.uint(4, 1)
  if (want.sendDontHave) entry.uint(5, 1)
  return entry
}

/** The number of bytes that `encodeMessage` returns. */
export function encodedLength(message: Message, blocks: readonly Block[]): number {
  const wantlist = message.wants.reduce((sum, want) => sum + entryLength(want), 0) + varintFieldLength(message.full ? 1 : 0)
  let bytes = bytesFieldLength(wantlist) + varintFieldLength(Math.min(message.pendingBytes, 0x7fff_ffff))
  for (const { cid, data } of blocks) {
    const prefix = bytesFieldLength(encodePrefix(cid).length)
    bytes += bytesFieldLength(prefix + (data.length > 0 ? bytesFieldLength(data.length) : 0))
  }
  return message.presences.reduce((sum, presence) => sum + presenceLength(presence), bytes)
}

/** Whether a message requests blocks themselves, and not only whether they are there. */
export function requestsBlocks({ wants }: Pick<Message, 'wants'>): boolean {
  return wants.some(({ kind, cancel }) => kind === 'block' && !cancel)
}

/** The number of bytes that a want takes in a message. */
export function entryLength({ cid, priority, cancel, kind, sendDontHave }: WantEntry): number {
  const flags = varintFieldLength(cancel ? 1 : 0) + varintFieldLength(kind === 'have' ? 1 : 0) + varintFieldLength(sendDontHave ? 1 : 0)
  return bytesFieldLength(bytesFieldLength(cidLength(cid)) + varintFieldLength(priority) + flags)
}

/** The number of bytes that a presence takes in a message. */
export function presenceLength({ cid, hasBlock }: Presence): number {
  return bytesFieldLength(bytesFieldLength(cidLength(cid)) + varintFieldLength(hasBlock ? 0 : 1))
}

function cidLength({ version, codec, hash, digest }: Cid): number {
  const head = varintLength(hash) + varintLength(digest.length)
  return digest.length + head + (version === 0 ? 0 : 1 + varintLength(codec))
}

function bytesFieldLength(length: number): number {
  return 1 + varintLength(length) + length
}

/** Zero is not encoded. */
function varintFieldLength(value: number): number {
  return value === 0 ? 0 : 1 + varintLength(value)
}

function varintLength(value: number): number {
  if (value < 0) return 10
  return value < 0x80 ? 1 : 1 + varintLength(Math.floor(value / 0x80))
}

/** Decodes a message and hashes its blocks. */
export async function receiveMessage(bytes: Bytes): Promise<ReceivedWithHeads> {
  const { full, wants, presences, pendingBytes, ...decoded } = decodeMessage(bytes)
  const blocks: Block[] = []
  let { skippedBlocks } = decoded
  for (const { prefix, data } of decoded.blocks) {
    try {
      blocks.push({ cid: await cidOfBlock(prefix, data), data })
    } catch (error) {
      // Any other error comes from this browser: it has no memory for the hash, or the code of the hash did not load. The block is
      // dropped, and the peer is not blamed for it.
      if (error instanceof ContentError) skippedBlocks++
    }
  }
  return { ...decoded, message: { full, wants, presences, pendingBytes }, blocks, skippedBlocks }
}

/** Decodes a message without its length prefix. Skips unknown fields. Throws a `MessageError` if it is malformed. */
export function decodeMessage(bytes: Bytes): DecodedMessage {
  if (bytes.length > MESSAGE_BYTES_MAX) {
    throw new MessageError(`cannot decode a message of ${bytes.length} bytes: the limit is ${MESSAGE_BYTES_MAX} bytes`)
  }
  const reading: MutableMessage = {
    full: false,
    wants: [],
    blocks: [],
    presences: [],
    pendingBytes: 0,
    heads: [],
    vouched: [],
    skippedEntries: 0,
    skippedBlocks: 0,
  }
  try {
    for (const field of decodeFields(bytes)) {
      if (field.number === 1) decodeWantlist(bytesOf(field), reading)
      else if (field.number === 2) pushBlock(reading, { prefix: CID_V0, data: bytesOf(field) })
      else if (field.number === 3) pushBlock(reading, decodeBlock(bytesOf(field)))
      else if (field.number === 4) decodePresence(bytesOf(field), reading)
      else if (field.number === 5) reading.pendingBytes = Math.max(0, int32Of(field))
      else if (field.number === HEADS_FIELD && reading.heads.length < HEADS_MAX) reading.heads.push(bytesOf(field))
      else if (field.number === VOUCHED_FIELD && reading.vouched.length < VOUCHED_MAX) reading.vouched.push(bytesOf(field))
    }
  } catch (error) {
    if (error instanceof ContentError) throw new MessageError(error.message)
    throw error
  }
  return reading
}

interface MutableMessage extends DecodedMessage {
  full: boolean
  readonly wants: WantEntry[]
  readonly blocks: ReceivedBlock[]
  readonly presences: Presence[]
  pendingBytes: number
  readonly heads: Bytes[]
  readonly vouched: Bytes[]
  skippedEntries: number
  skippedBlocks: number
}

/** The prefix of blocks of Bitswap 1.0, which carry none. */
const CID_V0: CidPrefix = { version: 0, codec: DAG_PB, hash: SHA2_256, digestLength: 32 }

function decodeWantlist(bytes: Bytes, reading: MutableMessage): void {
  for (const field of decodeFields(bytes)) {
    if (field.number === 2) reading.full = uintOf(field) !== 0
    if (field.number !== 1) continue
    const want = reading.wants.length < ENTRIES_MAX ? decodeEntry(bytesOf(field)) : null
    if (want === null) reading.skippedEntries++
    else reading.wants.push(want)
  }
}

function decodeEntry(bytes: Bytes): WantEntry | null {
  let cid: Bytes | null = null
  let priority = 0
  let cancel = false
  let kind: 'block' | 'have' = 'block'
  let sendDontHave = false
  for (const field of decodeFields(bytes)) {
    if (field.number === 1) cid = bytesOf(field)
    else if (field.number === 2) priority = int32Of(field)
    else if (field.number === 3) cancel = uintOf(field) !== 0
    else if (field.number === 4) kind = uintOf(field) === 1 ? 'have' : 'block'
    else if (field.number === 5) sendDontHave = uintOf(field) !== 0
  }
  const read = cidOrNull(cid)
  return read === null ? null : { cid: read, priority, cancel, kind, sendDontHave }
}

function decodeBlock(bytes: Bytes): ReceivedBlock {
  let prefix: CidPrefix | null = null
  let data: Bytes = new Uint8Array()
  for (const field of decodeFields(bytes)) {
    if (field.number === 1) prefix = decodePrefix(bytesOf(field))
    else if (field.number === 2) data = bytesOf(field)
  }
  if (prefix === null) throw new MessageError('cannot decode a block: it has no prefix')
  return { prefix, data }
}

function pushBlock(reading: MutableMessage, block: ReceivedBlock): void {
  if (block.data.length > BLOCK_BYTES_MAX)
    throw new MessageError(`cannot decode a block of ${block.data.length} bytes: the limit is ${BLOCK_BYTES_MAX} bytes`)
  if (reading.blocks.length < ENTRIES_MAX) reading.blocks.push(block)
  else reading.skippedBlocks++
}

function decodePresence(bytes: Bytes, reading: MutableMessage): void {
  let cid: Bytes | null = null
  let hasBlock = true
  for (const field of decodeFields(bytes)) {
    if (field.number === 1) cid = bytesOf(field)
    else if (field.number === 2) hasBlock = uintOf(field) === 0
  }
  const read = reading.presences.length < ENTRIES_MAX ? cidOrNull(cid) : null
  if (read === null) reading.skippedEntries++
  else reading.presences.push({ cid: read, hasBlock })
}

/** Returns `null` for a valid CID whose hash function cannot be checked. */
function cidOrNull(bytes: Bytes | null): Cid | null {
  if (bytes === null) throw new MessageError('cannot decode an entry: it has no CID')
  try {
    return decodeCid(bytes)
  } catch (error) {
    if (error instanceof ContentError && error.problem.kind === 'unsupported') return null
    throw error
  }
}
