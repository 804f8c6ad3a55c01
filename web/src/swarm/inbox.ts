import { BitswapError, decodeMessage } from '../bitswap/index.ts'
import { cidOfBlock, ContentError, type Bytes, type Cid } from '../content/index.ts'
import type { Input, PeerId } from '../exchange/index.ts'

/** Messages of one peer that wait to be hashed; one more is dropped, and what it answered is asked again. */
const INBOX_MAX = 16

/** Reads a peer's messages one after the other, though hashing takes its time. */
export class Inbox {
  #waiting = 0
  #reading: Promise<void> = Promise.resolve()

  /** `room` settles when there is room for what is in it. */
  read(peer: PeerId, bytes: Bytes, room: () => Promise<void> | null, deliver: (input: Input) => void): void {
    if (this.#waiting >= INBOX_MAX) return
    this.#waiting++
    this.#reading = this.#reading.then(async () => {
      await room()
      const input = await readMessage(peer, bytes)
      this.#waiting--
      deliver(input)
    })
  }
}

async function readMessage(peer: PeerId, bytes: Bytes): Promise<Input> {
  try {
    const decoded = decodeMessage(bytes)
    const blocks: { cid: Cid; bytes: Bytes }[] = []
    let uncheckable = 0
    for (const { prefix, data } of decoded.blocks) {
      try {
        blocks.push({ cid: await cidOfBlock(prefix, data), bytes: data })
      } catch (error) {
        if (!(error instanceof ContentError)) throw error
        uncheckable++
      }
    }
    return { kind: 'message', peer, message: decoded, blocks, uncheckable }
  } catch (error) {
    if (error instanceof BitswapError) return { kind: 'malformed', peer }
    throw error
  }
}
