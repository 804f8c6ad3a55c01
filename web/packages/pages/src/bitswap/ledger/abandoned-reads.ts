import type { Cid, CidKey } from '../../content/index.ts'
import type { PeerId } from '../peer.ts'

/**
 * Reads for peers that have left. Their blocks are in memory until the store answers. Without this count, peers that
 * reconnect all the time could cause any number of reads.
 */
export class AbandonedReads {
  /** The lengths of the blocks being read. A peer that returned may have left the same block twice. */
  readonly #reads = new Map<string, number[]>()
  bytes = 0

  /** A peer left while these blocks were being read for it. */
  add(peer: PeerId, reading: ReadonlyMap<CidKey, number>): void {
    for (const [key, length] of reading) {
      this.bytes += length
      const name = nameOf(peer, key)
      const lengths = this.#reads.get(name)
      if (lengths === undefined) this.#reads.set(name, [length])
      else lengths.push(length)
    }
  }

  /** The store answered. The read may be one of these. */
  read(peer: PeerId, { key }: Cid): void {
    const name = nameOf(peer, key)
    const lengths = this.#reads.get(name)
    if (lengths === undefined) return
    this.bytes -= lengths.pop() ?? 0
    if (lengths.length === 0) this.#reads.delete(name)
  }
}

const nameOf = (peer: PeerId, key: CidKey) => `${peer} ${key}`
