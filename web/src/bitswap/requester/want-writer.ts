import type { Cid } from '../../content/index.ts'
import { wantHavesMax, type ExchangeLimits } from '../limits.ts'
import type { WantEntry } from '../message.ts'
import { Bits, setBits } from './bits.ts'
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
  readonly #limits: ExchangeLimits
  readonly #wants: Wants
  #nextPriority = PRIORITY_MAX - URGENT_MAX

  constructor(limits: ExchangeLimits, wants: Wants) {
    this.#limits = limits
    this.#wants = wants
  }

  /** Takes the wants for the next message to a peer. `isMore` says whether others are left. */
  take(state: PeerState, roomBytes: number): { wants: WantEntry[]; isMore: boolean } {
    const entriesMax = Math.min(ENTRIES_PER_MESSAGE, Math.max(1, Math.floor(roomBytes / ENTRY_BYTES)))
    state.isUrgent = false
    const wants: WantEntry[] = state.pendingCancels.splice(0, entriesMax).map(cancelOf)
    this.#addWantBlocks(state, entriesMax, wants)
    const isMoreToAsk = state.pendingCancels.length > 0 || state.pendingRequests.length > 0
    const isMore = this.#addWantHaves(state, entriesMax, wants) || isMoreToAsk
    if (state.pendingCancels.length === 0) state.deferred = new Bits()
    return { wants, isMore }
  }

  #addWantBlocks(state: PeerState, entriesMax: number, wants: WantEntry[]): void {
    const postponed: number[] = []
    for (const at of state.pendingRequests) {
      const request = state.requested.get(at)
      if (request === undefined) continue
      if (wants.length >= entriesMax || state.deferred.has(at)) {
        postponed.push(at)
        continue
      }
      request.isSent = true
      state.sentWantHaves.remove(at)
      const { cid } = this.#wants.get(at)
      wants.push({ cid, priority: this.#priorityOf(at), cancel: false, type: 'block', sendDontHave: true })
    }
    state.pendingRequests = postponed
  }

  /** Adds want-haves for wants that the peer does not know of. Returns whether others are left. */
  #addWantHaves({ sentWantHaves, has, requested, deferred }: PeerState, entriesMax: number, wants: WantEntry[]): boolean {
    const { live, size } = this.#wants
    const unsent: number[] = []
    const room = entriesMax - wants.length + 1
    for (const at of setBits(live.words, (half) => live.half(half) & ~(sentWantHaves.half(half) | has.half(half)))) {
      if (requested.has(at)) continue
      if (unsent.push(at) >= room) break
    }
    const max = wantHavesMax(this.#limits, requested.size)
    let isMore = false
    for (const at of unsent) {
      if (sentWantHaves.size >= max) break
      if (wants.length >= entriesMax || deferred.has(at)) {
        isMore = true
        continue
      }
      sentWantHaves.insert(at)
      const { cid } = this.#wants.get(at)
      const sendDontHave = size <= WANTS_WITH_DONT_HAVE
      wants.push({ cid, priority: this.#nextPriorityOf(), cancel: false, type: 'have', sendDontHave })
    }
    return isMore
  }

  #priorityOf(at: number): number {
    const place = this.#wants.urgentRank(at)
    return place === null ? this.#nextPriorityOf() : PRIORITY_MAX - place
  }

  /** Returns a lower priority with each call: the want that is sent first is the most urgent. */
  #nextPriorityOf(): number {
    const priority = this.#nextPriority
    this.#nextPriority = priority > 1 ? priority - 1 : PRIORITY_MAX - URGENT_MAX
    return priority
  }
}

function cancelOf(cid: Cid): WantEntry {
  return { cid, priority: 0, cancel: true, type: 'block', sendDontHave: false }
}
