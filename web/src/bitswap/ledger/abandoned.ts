import type { Cid, CidKey } from '../../content/index.ts'
import type { PeerId } from '../peer.ts'

/**
 * Blocks that the store still reads for peers that are gone. They are held in memory like any other until it answers: who
 * comes and goes all the time could otherwise have it read without end.
 */
export class Abandoned {
  /** The bytes that each read was to have. Who came back may have left the same block twice. */
  readonly #reads = new Map<string, number[]>()
  bytes = 0

  /** A peer left while these were read for it. */
  add(peer: PeerId, reading: ReadonlyMap<CidKey, number>): void {
    for (const [key, length] of reading) {
      this.bytes += length
      const name = nameOf(peer, key)
      const lengths = this.#reads.get(name)
      if (lengths === undefined) this.#reads.set(name, [length])
      else lengths.push(length)
    }
  }

  /** The store answered, one of these perhaps. */
  read(peer: PeerId, { key }: Cid): void {
    const name = nameOf(peer, key)
    const lengths = this.#reads.get(name)
    if (lengths === undefined) return
    this.bytes -= lengths.pop() ?? 0
    if (lengths.length === 0) this.#reads.delete(name)
  }
}

const nameOf = (peer: PeerId, key: CidKey) => `${peer} ${key}`
