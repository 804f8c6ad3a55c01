import { concat, type Bytes, type Leaf, type Leaves } from '../content/index.ts'
import type { PlainContent } from './plain.ts'
import type { Records } from './records.ts'

/**
 * The ciphertext of a page as leaves, each sealed when it is read, and read from its files for that. If a file is another
 * by then, the ciphertext is made with a nonce that was used before, and the two together would give both contents away:
 * so a leaf goes nowhere before it was hashed, which the store does that these are put in.
 */
export class SealedLeaves implements Leaves {
  readonly size: number
  readonly #content: PlainContent
  readonly #records: Records

  constructor(content: PlainContent, records: Records) {
    this.size = records.layout.sealedBytes
    this.#content = content
    this.#records = records
  }

  /** Leaves are records: they begin and end where these do. */
  slice(from: number, to: number): Leaf {
    const { layout } = this.#records
    const record = from / layout.recordBytes
    const end = Math.min(to, this.size)
    if (!Number.isInteger(record) || end !== layout.sealedOf(record).to) throw new Error('a leaf that is no record')
    return { size: end - from, arrayBuffer: async () => (await this.#seal(record)).buffer }
  }

  async #seal(record: number): Promise<Bytes> {
    const { layout, header } = this.#records
    const { from, to } = layout.contentOf(record)
    const sealed = await this.#records.seal(record, await this.#content.read(from, to))
    return record === 0 ? concat([header, sealed]) : sealed
  }
}
