import { BitswapError, receiveMessage, type Received } from '../bitswap/index.ts'
import type { Bytes } from '../content/index.ts'

/** Messages of one peer that wait to be hashed; one more is dropped, and what it answered is asked again. */
const INBOX_MAX = 16

/** Reads a peer's messages one after the other, though hashing takes its time. */
export class Inbox {
  #waiting = 0
  #reading: Promise<void> = Promise.resolve()

  /** `room` settles when there is room for what is in it; `deliver` is given `null` for what cannot be read as a message. */
  read(bytes: Bytes, room: () => Promise<void> | null, deliver: (received: Received | null) => void): void {
    if (this.#waiting >= INBOX_MAX) return
    this.#waiting++
    this.#reading = this.#reading.then(async () => {
      await room()
      const received = await receive(bytes)
      this.#waiting--
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
