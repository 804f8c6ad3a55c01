import type { Cid } from '../../content/index.ts'
import { wantHavesMax, type Limits } from '../limits.ts'
import type { WantEntry } from '../message.ts'
import { BitSet, ones } from '../bit-set.ts'
import type { PeerState } from './peer-state.ts'
import { URGENT_MAX, type Wants } from './wants.ts'

/** Wants in one message at most. Further wants follow in the next message. */
const ENTRIES_PER_MESSAGE = 512
/** The usual length of a want in a message. */
const ENTRY_BYTES = 64
/** While so few blocks are wanted, want-haves ask for DONT_HAVE too. With more wants, HAVE answers are enough. */
const WANTS_WITH_DONT_HAVE = 16
/** The highest priority. Urgent wants have higher priorities than all others. */
const PRIORITY_MAX = 2 ** 31 - 1

/** Writes the wants of a message: cancels, want-blocks, and want-haves where there is room. */
export class WantWriter {
  readonly #limits: Limits
  readonly #wants: Wants
  #nextPriority = PRIORITY_MAX - URGENT_MAX

  constructor(limits: Limits, wants: Wants) {
    this.#limits = limits
    this.#wants = wants
  }

  /** Takes the wants for the next message to a peer. `hasMore` says whether others are left. */
  takeWants(state: PeerState, roomBytes: number): { wants: WantEntry[]; hasMore: boolean } {
    const entriesMax = Math.min(ENTRIES_PER_MESSAGE, Math.max(1, Math.floor(roomBytes / ENTRY_BYTES)))
    state.queue.isUrgent = false
    const wants: WantEntry[] = state.queue.cancels.splice(0, entriesMax).map(cancelEntry)
    this.#takeRequests(state, entriesMax, wants)
    const isMoreToAsk = state.queue.cancels.length > 0 || state.queue.requests.length > 0
    const hasMore = this.#takeWantHaves(state, entriesMax, wants) || isMoreToAsk
    if (state.queue.cancels.length === 0) state.queue.justCancelled = new BitSet()
    return { wants, hasMore }
  }

  #takeRequests(state: PeerState, entriesMax: number, wants: WantEntry[]): void {
    const postponed: number[] = []
    for (const at of state.queue.requests) {
      const request = state.requests.get(at)
      if (request === undefined) continue
      if (wants.length >= entriesMax || state.queue.justCancelled.has(at)) {
        postponed.push(at)
        continue
      }
      const urgentPlace = this.#wants.urgentPlace(at)
      request.isSent = true
      request.isUrgent = urgentPlace !== null
      state.queue.sentWantHaves.remove(at)
      const { cid } = this.#wants.get(at)
      const priority = urgentPlace === null ? this.#takePriority() : PRIORITY_MAX - urgentPlace
      wants.push({ cid, priority, cancel: false, kind: 'block', sendDontHave: true })
    }
    state.queue.requests = postponed
  }

  /** Adds want-haves for wants that the peer does not know of. Returns whether others are left. */
  #takeWantHaves({ queue, blocks: { has }, requests }: PeerState, entriesMax: number, wants: WantEntry[]): boolean {
    const { sentWantHaves, justCancelled } = queue
    const { live, size } = this.#wants
    const unsent: number[] = []
    const room = entriesMax - wants.length + 1
    for (const at of ones(live.words, (half) => live.half(half) & ~(sentWantHaves.half(half) | has.half(half)))) {
      if (requests.get(at) !== undefined) continue
      if (unsent.push(at) >= room) break
    }
    const max = wantHavesMax(this.#limits, requests.size)
    let hasMore = false
    for (const at of unsent) {
      if (sentWantHaves.size >= max) break
      if (wants.length >= entriesMax || justCancelled.has(at)) {
        hasMore = true
        continue
      }
      sentWantHaves.insert(at)
      const { cid } = this.#wants.get(at)
      const sendDontHave = size <= WANTS_WITH_DONT_HAVE
      wants.push({ cid, priority: this.#takePriority(), cancel: false, kind: 'have', sendDontHave })
    }
    return hasMore
  }

  /** Returns a lower priority with each call: the want that is sent first is the most urgent. */
  #takePriority(): number {
    const priority = this.#nextPriority
    this.#nextPriority = priority > 1 ? priority - 1 : PRIORITY_MAX - URGENT_MAX
    return priority
  }
}

function cancelEntry(cid: Cid): WantEntry {
  return { cid, priority: 0, cancel: true, kind: 'block', sendDontHave: false }
}
