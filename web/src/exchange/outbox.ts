import type { BlockPresence, WantEntry } from '../bitswap/index.ts'
import type { Cid, CidKey } from '../content/index.ts'

/** Entries in one control message, so that it stays far below a relay frame. */
const ENTRIES_PER_MESSAGE = 512

/**
 * What is to be told to one peer and has not been yet: at most one thing about each block, the latest. It is therefore
 * never longer than what we want and what the peer wants, both of which are bounded.
 */
export class Outbox {
  readonly #wants = new Map<CidKey, WantEntry>()
  readonly #presences = new Map<CidKey, BlockPresence>()

  /** Whether it is to hear that it waits its turn. */
  #tellsPending = false

  get isEmpty(): boolean {
    return this.#wants.size === 0 && this.#presences.size === 0 && !this.#tellsPending
  }

  tellPending(): void {
    this.#tellsPending = true
  }

  want(entry: WantEntry): void {
    // Last place again: a cancel must not overtake the want it follows, nor the other way round.
    this.#wants.delete(entry.cid.key)
    this.#wants.set(entry.cid.key, entry)
  }

  presence(cid: Cid, have: boolean): void {
    this.#presences.set(cid.key, { cid, have })
  }

  /** What fits into one message; the rest waits for the next. Every message tells what is pending. */
  take(): { wants: WantEntry[]; presences: BlockPresence[] } {
    this.#tellsPending = false
    return { wants: takeFirst(this.#wants), presences: takeFirst(this.#presences) }
  }
}

function takeFirst<Value>(from: Map<CidKey, Value>): Value[] {
  const taken: Value[] = []
  for (const [key, value] of from) {
    if (taken.length >= ENTRIES_PER_MESSAGE) break
    taken.push(value)
    from.delete(key)
  }
  return taken
}
