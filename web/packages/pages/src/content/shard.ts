import { isSameBytes, utf8, type Bytes } from './bytes.ts'
import type { PbLink } from './dag-pb.ts'
import { malformed } from './error.ts'
import { murmur3 } from './murmur3.ts'

/** Sharded directories (HAMT): a directory too large for one node is split by the hashes of its names. */
export const SHARD_TYPE = 5
/** murmur3-x64-64 in the multicodec table, which every implementation uses. */
export const HASH_TYPE = 0x22
/** The fanouts that are read. */
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

export const hashOf = (name: string) => murmur3(utf8(name))

/** The slot of a hash in a shard whose names have the same first `bits`. A hash without further bits has none, -1. */
export function slotOf(hash: bigint, bits: number, fanout: number): number {
  const shift = HASH_BITS - bits - Math.log2(fanout)
  return shift < 0 ? -1 : Number((hash >> BigInt(shift)) & BigInt(fanout - 1))
}

/** Hexadecimal digits before each name in a shard. */
const slotDigits = (fanout: number) => Math.ceil(Math.log2(fanout) / 4)

export const slotName = (slot: number, fanout: number) => slot.toString(16).toUpperCase().padStart(slotDigits(fanout), '0')

/** One bit for each used slot. Slot 0 is the lowest bit. Leading zeros are left out. */
export function bitmapOf(slots: readonly number[]): Bytes {
  const bytes = new Uint8Array(FANOUT_MAX / 8)
  for (const slot of slots) {
    const at = bytes.length - 1 - Math.floor(slot / 8)
    bytes[at] = (bytes[at] ?? 0) | (1 << (slot % 8))
  }
  const zeros = bytes.findIndex((byte) => byte !== 0)
  return bytes.slice(zeros < 0 ? bytes.length : zeros)
}
