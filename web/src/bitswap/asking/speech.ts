import type { Cid } from '../../content/index.ts'
import { toldMax, type ExchangeLimits } from '../limits.ts'
import type { WantEntry } from '../message.ts'
import { Bits, ones } from './bits.ts'
import type { View } from './view.ts'
import { URGENT_MAX, type Wants } from './wants.ts'

/** Most wants in one message; others follow in the next. */
const ENTRIES_PER_MESSAGE = 512
/** What a want usually takes in a message. */
const ENTRY_BYTES = 64
/**
 * While so few blocks are wanted, peers are asked to say that they lack them. Of many, it is news enough who has them.
 */
const WANTS_WITH_DONT_HAVE = 16
/** The highest priority there is; those that are named as urgent are above all others. */
const PRIORITY_MAX = 2 ** 31 - 1

/** Puts what peers are to be told of our wants into words: cancels, want-blocks, and want-haves where there is room. */
export class Speech {
  readonly #limits: ExchangeLimits
  readonly #wants: Wants
  #nextPriority = PRIORITY_MAX - URGENT_MAX

  constructor(limits: ExchangeLimits, wants: Wants) {
    this.#limits = limits
    this.#wants = wants
  }

  /** What is to be told to a peer next; whether there is more. */
  speak(view: View, roomBytes: number): { wants: WantEntry[]; isMore: boolean } {
    const entriesMax = Math.min(ENTRIES_PER_MESSAGE, Math.max(1, Math.floor(roomBytes / ENTRY_BYTES)))
    view.isUrgent = false
    const wants: WantEntry[] = view.cancels.splice(0, entriesMax).map(cancelOf)
    this.#ask(view, entriesMax, wants)
    const isMoreToAsk = view.cancels.length > 0 || view.newAsks.length > 0
    const isMore = this.#question(view, entriesMax, wants) || isMoreToAsk
    if (view.cancels.length === 0) view.heldBack = new Bits()
    return { wants, isMore }
  }

  #ask(view: View, entriesMax: number, wants: WantEntry[]): void {
    const later: number[] = []
    for (const at of view.newAsks) {
      const ask = view.asked.get(at)
      if (ask === undefined) continue
      if (wants.length >= entriesMax || view.heldBack.has(at)) {
        later.push(at)
        continue
      }
      ask.isSpoken = true
      view.told.remove(at)
      const { cid } = this.#wants.get(at)
      wants.push({ cid, priority: this.#priorityOf(at), cancel: false, type: 'block', sendDontHave: true })
    }
    view.newAsks = later
  }

  /** Asks whether it has what it was not asked about yet; whether there is more. */
  #question({ told, has, asked, heldBack }: View, entriesMax: number, wants: WantEntry[]): boolean {
    const { live, size } = this.#wants
    const untold: number[] = []
    const room = entriesMax - wants.length + 1
    for (const at of ones(live.words, (half) => live.half(half) & ~(told.half(half) | has.half(half)))) {
      if (asked.has(at)) continue
      if (untold.push(at) >= room) break
    }
    const max = toldMax(this.#limits, asked.size)
    let isMore = false
    for (const at of untold) {
      if (told.size >= max) break
      if (wants.length >= entriesMax || heldBack.has(at)) {
        isMore = true
        continue
      }
      told.insert(at)
      const { cid } = this.#wants.get(at)
      const sendDontHave = size <= WANTS_WITH_DONT_HAVE
      wants.push({ cid, priority: this.#nextPriorityOf(), cancel: false, type: 'have', sendDontHave })
    }
    return isMore
  }

  #priorityOf(at: number): number {
    const place = this.#wants.urgentPlace(at)
    return place === null ? this.#nextPriorityOf() : PRIORITY_MAX - place
  }

  /** First asked is most urgent. */
  #nextPriorityOf(): number {
    const priority = this.#nextPriority
    this.#nextPriority = priority > 1 ? priority - 1 : PRIORITY_MAX - URGENT_MAX
    return priority
  }
}

function cancelOf(cid: Cid): WantEntry {
  return { cid, priority: 0, cancel: true, type: 'block', sendDontHave: false }
}
