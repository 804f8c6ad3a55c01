import { concat, type Bytes, type Leaf, type LeafSource } from '../content/index.ts'
import type { PlaintextContent } from './plaintext-content.ts'
import type { Records } from './records.ts'

/**
 * The ciphertext of a page as leaves. Each is encrypted when it is read, from the page's files. If a file has changed,
 * the ciphertext reuses a nonce, and the two ciphertexts together would reveal both contents. So the store hashes each
 * leaf again before it is sent.
 */
export class SealedLeaves implements LeafSource {
  readonly size: number
  readonly #content: PlaintextContent
  readonly #records: Records

  constructor(content: PlaintextContent, records: Records) {
    this.size = records.layout.sealedBytes
    this.#content = content
    this.#records = records
  }

  /** Each leaf is one record. */
  slice(from: number, to: number): Leaf {
    const { layout } = this.#records
    const record = from / layout.recordBytes
    const end = Math.min(to, this.size)
    if (!Number.isInteger(record) || end !== layout.sealedOf(record).to) {
      throw new Error(`record ${record} has another length`)
    }
    return { size: end - from, arrayBuffer: async () => (await this.#seal(record)).buffer }
  }

  async #seal(record: number): Promise<Bytes> {
    const { layout, header } = this.#records
    const { from, to } = layout.contentOf(record)
    const sealed = await this.#records.seal(record, await this.#content.read(from, to))
    return record === 0 ? concat([header, sealed]) : sealed
  }
}
