import { isSameBytes, utf8, type Bytes } from './bytes.ts'
import { cidOf, DAG_PB, type Cid } from './cid.ts'
import { encodePbNode, type PbLink } from './dag-pb.ts'
import { ContentError, malformed } from './error.ts'
import { murmur3 } from './murmur3.ts'
import { MessageWriter } from './protobuf.ts'
import { forEachItem, ItemCount, nextTask, sorted, type PausingWork } from './tasks.ts'

/** Sharded directories (HAMT): a directory too large for one node is split by the hashes of its names. */
export const SHARD_TYPE = 5
/** murmur3-x64-64 in the multicodec table, which every implementation uses. */
const HASH_TYPE = 0x22
/** The fanout of shards that are built, as in kubo, and the largest fanout that is read. */
const FANOUT = 256
const FANOUT_MIN = 8
const FANOUT_MAX = 1024
const HASH_BITS = 64

export interface ShardLink extends PbLink {
  /** Whether it links to another shard instead of an entry. */
  readonly isShard: boolean
  readonly slot: number
}

/** The header of a shard. */
export interface ShardHead {
  readonly bitmap: Bytes
  readonly hashType: number | null
  readonly fanout: number | null
}

/** The first bits of the hashes of all names below a node. */
export interface HamtPath {
  readonly path: bigint
  readonly bits: number
  /** The fanout of the shards above. `null` at the root. */
  readonly fanout: number | null
}

export const HAMT_ROOT: HamtPath = { path: 0n, bits: 0, fanout: null }

/** Reads the links of a shard. Throws unless encoding them again gives the same. */
export function shardLinks(head: ShardHead, links: readonly PbLink[]): ShardLink[] {
  const fanout = fanoutOf(head)
  if (head.hashType !== HASH_TYPE) throw malformed('shardHash')
  let before = -1
  const found = links.map((link) => {
    const digits = slotDigits(fanout)
    const slot = Number.parseInt(link.name.slice(0, digits), 16)
    if (slotName(slot, fanout) !== link.name.slice(0, digits) || slot <= before || slot >= fanout) {
      throw malformed('shardSlot')
    }
    before = slot
    return { ...link, slot, name: link.name.slice(digits), isShard: link.name.length === digits }
  })
  if (!isSameBytes(bitmapOf(found.map(({ slot }) => slot)), head.bitmap)) {
    throw malformed('shardMap')
  }
  return found
}

/**
 * The path of a slot. Throws if the hash of its name does not match, because the entry could then be listed but never
 * found.
 */
export function hamtPathBelow(trail: HamtPath, fanout: number, { slot, name, isShard }: ShardLink): HamtPath {
  const bits = trail.bits + Math.log2(fanout)
  if (trail.fanout !== null && trail.fanout !== fanout) throw malformed('shardWidths')
  if (bits > HASH_BITS) throw malformed('shardDepth')
  const path = trail.path | (BigInt(slot) << BigInt(HASH_BITS - bits))
  if (!isShard && (hashOf(name) ^ path) >> BigInt(HASH_BITS - bits) !== 0n) {
    throw malformed('shardAstray')
  }
  return { path, bits, fanout }
}

export function fanoutOf({ fanout }: Pick<ShardHead, 'fanout'>): number {
  const isWidth = fanout !== null && fanout >= FANOUT_MIN && fanout <= FANOUT_MAX && Number.isInteger(Math.log2(fanout))
  if (!isWidth) throw malformed('shardWidth')
  return fanout
}

export interface HashedEntry {
  readonly link: PbLink & { dagBytes: number }
  readonly hash: bigint
}

/** Entries in the order of their hashes. Throws if two names have the same hash. */
export function* hashEntries(links: readonly (PbLink & { dagBytes: number })[]): PausingWork<HashedEntry[]> {
  const entries: HashedEntry[] = []
  const count = new ItemCount()
  yield* forEachItem(links, (link) => entries.push({ link, hash: hashOf(link.name) }), count)
  const inOrder = yield* sorted(entries, (a, b) => (a.hash < b.hash ? -1 : a.hash > b.hash ? 1 : 0), count)
  for (const [i, { hash, link }] of inOrder.entries()) {
    if (hash === inOrder[i + 1]?.hash) throw new ContentError({ kind: 'bad-path', path: link.name })
  }
  return inOrder
}

/**
 * Builds the shards for entries whose hashes have the same first `bits`, few of them in a task. The block of the outermost shard comes
 * last.
 */
export async function* buildShards(
  entries: readonly HashedEntry[],
  bits = 0,
  count = new ItemCount(),
): AsyncGenerator<{ cid: Cid; block: Bytes; size: number }, { cid: Cid; dagBytes: number }> {
  const links: (PbLink & { dagBytes: number })[] = []
  const slots: number[] = []
  const step = Math.log2(FANOUT)
  const slotOfEntry = ({ hash }: HashedEntry) => slotOf(hash, bits, FANOUT)
  for (let from = 0; from < entries.length; ) {
    const first = entries[from]
    if (first === undefined) break
    const slot = slotOfEntry(first)
    let to = from + 1
    for (let next = entries[to]; next !== undefined && slotOfEntry(next) === slot; next = entries[to]) to++
    const name = slotName(slot, FANOUT)
    slots.push(slot)
    if (to - from === 1) {
      links.push({ ...first.link, name: name + first.link.name })
    } else {
      const below = yield* buildShards(entries.slice(from, to), bits + step, count)
      links.push({ ...below, name })
    }
    from = to
  }
  // Chromium has the hash of a short block without waiting.
  if (count.isPauseDue(links.length)) await nextTask()
  const data = new MessageWriter().uint(1, SHARD_TYPE).bytes(2, bitmapOf(slots)).uint(5, HASH_TYPE).uint(6, FANOUT)
  const block = encodePbNode({ links, data: data.finish() })
  const cid = await cidOf(DAG_PB, block)
  yield { cid, block, size: block.length }
  return { cid, dagBytes: links.reduce((sum, link) => sum + link.dagBytes, block.length) }
}

export const hashOf = (name: string) => murmur3(utf8(name))

/** The slot of a hash in a shard whose names have the same first `bits`. A hash without further bits has none, -1. */
export function slotOf(hash: bigint, bits: number, fanout: number): number {
  const shift = HASH_BITS - bits - Math.log2(fanout)
  return shift < 0 ? -1 : Number((hash >> BigInt(shift)) & BigInt(fanout - 1))
}

/** Hexadecimal digits before each name in a shard. */
const slotDigits = (fanout: number) => Math.ceil(Math.log2(fanout) / 4)

const slotName = (slot: number, fanout: number) => slot.toString(16).toUpperCase().padStart(slotDigits(fanout), '0')

/** One bit for each used slot. Slot 0 is the lowest bit. Leading zeros are left out. */
function bitmapOf(slots: readonly number[]): Bytes {
  const bytes = new Uint8Array(FANOUT_MAX / 8)
  for (const slot of slots) {
    const at = bytes.length - 1 - Math.floor(slot / 8)
    bytes[at] = (bytes[at] ?? 0) | (1 << (slot % 8))
  }
  const zeros = bytes.findIndex((byte) => byte !== 0)
  return bytes.slice(zeros < 0 ? bytes.length : zeros)
}
