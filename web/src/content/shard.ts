import { isSameBytes, type Bytes } from './bytes.ts'
import { cidOf, DAG_PB, type Cid } from './cid.ts'
import { encodePbNode, type PbLink } from './dag-pb.ts'
import { ContentError, malformed } from './error.ts'
import { murmur3 } from './murmur3.ts'
import { MessageWriter } from './protobuf.ts'

/** A directory too large for one node is spread over many, shards, by the hashes of its names (HAMT). */
export const SHARD_TYPE = 5
/** murmur3-x64-64 in the multicodec table: what everyone spreads by. */
const HASH_TYPE = 0x22
/** Slots of a shard that we build, as everybody does, and of those that we read. */
const FANOUT = 256
const FANOUT_MIN = 8
const FANOUT_MAX = 1024
const HASH_BITS = 64

export interface ShardLink extends PbLink {
  /** Whether it leads to a further shard instead of to an entry. */
  readonly isShard: boolean
  readonly slot: number
}

/** What a shard says about itself. */
export interface ShardHead {
  readonly bitmap: Bytes
  readonly hashType: number | null
  readonly fanout: number | null
}

/** The first bits of the hashes of all that is below some place: where a name may be found, and only there. */
export interface Trail {
  readonly path: bigint
  readonly bits: number
  /** Slots of the shards above; `null` at the root. */
  readonly fanout: number | null
}

export const ROOT_TRAIL: Trail = { path: 0n, bits: 0, fanout: null }

/** Reads the links of a shard. What is well formed would be written the same. */
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

/** Where what is in a slot lies; refuses a name whose hash leads elsewhere, since it could be listed and never found. */
export function trailBelow(trail: Trail, fanout: number, { slot, name, isShard }: ShardLink): Trail {
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

export interface SpreadEntry {
  readonly link: PbLink & { dagBytes: number }
  readonly hash: bigint
}

/** Entries in the order of their hashes. Two with the same have no place beside each other. */
export function spread(links: readonly (PbLink & { dagBytes: number })[]): SpreadEntry[] {
  const entries = links.map((link) => ({ link, hash: hashOf(link.name) }))
  entries.sort((a, b) => (a.hash < b.hash ? -1 : 1))
  for (const [i, { hash, link }] of entries.entries()) {
    if (hash === entries[i + 1]?.hash) throw new ContentError({ kind: 'bad-path', path: link.name })
  }
  return entries
}

/** Builds the shards for entries that agree in the first `bits` of their hashes; the block of the outermost comes last. */
export async function* buildShards(
  entries: readonly SpreadEntry[],
  bits = 0,
): AsyncGenerator<{ cid: Cid; block: Bytes; size: number }, { cid: Cid; dagBytes: number }> {
  const links: (PbLink & { dagBytes: number })[] = []
  const slots: number[] = []
  const step = Math.log2(FANOUT)
  const slotOf = ({ hash }: SpreadEntry) => Number((hash >> BigInt(HASH_BITS - bits - step)) & BigInt(FANOUT - 1))
  for (let from = 0; from < entries.length; ) {
    const first = entries[from]
    if (first === undefined) break
    const slot = slotOf(first)
    let to = from + 1
    for (let next = entries[to]; next !== undefined && slotOf(next) === slot; next = entries[to]) to++
    const name = slotName(slot, FANOUT)
    slots.push(slot)
    if (to - from === 1) {
      links.push({ ...first.link, name: name + first.link.name })
    } else {
      const below = yield* buildShards(entries.slice(from, to), bits + step)
      links.push({ ...below, name })
    }
    from = to
  }
  const data = new MessageWriter().uint(1, SHARD_TYPE).bytes(2, bitmapOf(slots)).uint(5, HASH_TYPE).uint(6, FANOUT)
  const block = encodePbNode({ links, data: data.finish() })
  const cid = await cidOf(DAG_PB, block)
  yield { cid, block, size: block.length }
  return { cid, dagBytes: links.reduce((sum, link) => sum + link.dagBytes, block.length) }
}

const utf8 = new TextEncoder()
const hashOf = (name: string) => murmur3(utf8.encode(name))

/** Hexadecimal digits in front of each name in a shard. */
const slotDigits = (fanout: number) => Math.ceil(Math.log2(fanout) / 4)

const slotName = (slot: number, fanout: number) => slot.toString(16).toUpperCase().padStart(slotDigits(fanout), '0')

/** One bit for each slot that something is in, slot 0 the last bit, without zeros in front. */
function bitmapOf(slots: readonly number[]): Bytes {
  const bytes = new Uint8Array(FANOUT_MAX / 8)
  for (const slot of slots) {
    const at = bytes.length - 1 - Math.floor(slot / 8)
    bytes[at] = (bytes[at] ?? 0) | (1 << (slot % 8))
  }
  const zeros = bytes.findIndex((byte) => byte !== 0)
  return bytes.slice(zeros < 0 ? bytes.length : zeros)
}
