import { BitswapError, receiveMessage, type Received } from '../bitswap/index.ts'
import type { Bytes } from '../content/index.ts'
import { isShort } from './segment.ts'

/**
 * Messages of one peer that wait to be read: with blocks, and short ones, which come in plenty while blocks are hashed.
 * One more is dropped, and what it answered is asked again.
 */
const WAITING_MAX = { long: 16, short: 256 }

/** Reads a peer's messages one after the other, though hashing takes its time. */
export class Inbox {
  readonly #waiting = { long: 0, short: 0 }
  #reading: Promise<void> = Promise.resolve()

  /** `room` settles when there is room for what is in it; `deliver` is given `null` for what cannot be read as a message. */
  read(bytes: Bytes, room: () => Promise<void> | null, deliver: (received: Received | null) => void): void {
    const kind = isShort(bytes) ? 'short' : 'long'
    if (this.#waiting[kind] >= WAITING_MAX[kind]) return
    this.#waiting[kind]++
    this.#reading = this.#reading.then(async () => {
      await room()
      const received = await receive(bytes)
      this.#waiting[kind]--
      deliver(received)
    })
  }
}

async function receive(bytes: Bytes): Promise<Received | null> {
  try {
    return await receiveMessage(bytes)
  } catch (error) {
    if (error instanceof BitswapError) return null
    throw error
  }
}
