import { MessageError, receiveMessage, type ReceivedWithHeads } from '../bitswap/index.ts'
import type { Bytes } from '../content/index.ts'
import { isShort } from './segment.ts'

/**
 * Messages of one peer that wait to be read: long ones with blocks, and short ones, of which many arrive while blocks
 * are hashed. When the limit is reached, further messages are dropped, and their contents are requested again.
 */
const WAITING_MAX = { long: 16, short: 256 }

/** Reads a peer's messages one after another, although hashing is asynchronous. */
export class PeerInbox {
  readonly #waiting = { long: 0, short: 0 }
  #reading: Promise<void> = Promise.resolve()

  /**
   * `room` resolves when the store has room. `deliver` gets `null` if the bytes cannot be decoded. Returns whether the message waits
   * now; `false` if it was dropped.
   */
  read(bytes: Bytes, room: () => Promise<void> | null, deliver: (received: ReceivedWithHeads | null) => void): boolean {
    const kind = isShort(bytes) ? 'short' : 'long'
    if (this.#waiting[kind] >= WAITING_MAX[kind]) return false
    this.#waiting[kind]++
    this.#reading = this.#reading.then(async () => {
      await room()
      const received = await receive(bytes)
      this.#waiting[kind]--
      deliver(received)
    })
    return true
  }
}

async function receive(bytes: Bytes): Promise<ReceivedWithHeads | null> {
  try {
    return await receiveMessage(bytes)
  } catch (error) {
    if (error instanceof MessageError) return null
    throw error
  }
}
