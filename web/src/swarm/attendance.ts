import type { PeerId } from '../bitswap/index.ts'
import type { Connection, Reply, Topic } from '../channel/index.ts'
import type { Bytes, Cid } from '../content/index.ts'
import type { Clock, Counts, Have, Millis, Presence } from './api.ts'
import {
  readCounts, readIntroduction, readIntroductions, readLastLit, readReason, readWelcome, type Introduction, type StunServer,
} from './told.ts'

const EVENTS = ['relay', 'signal', 'peer_joined', 'peer_left', 'counts', 'lit', 'dark', 'denied']
/** The operator wants nobody to be introduced on this page: what a join is refused with, and who is there told. */
const DENIED = 'denied'
/** Longest wait until other peers are asked for when somebody lights the page: it has a life of its own. */
const LIT_PAUSE_MAX: Millis = 1000

export interface AttendanceDeps {
  readonly connection: Connection
  readonly clock: Clock
  readonly random: () => number
  /** How much of the page is here. */
  readonly have: () => Have
  /** Whether the page hears nothing any more: it has failed, or is closed. */
  readonly isOver: () => boolean
  /** We are on the topic, under a new name, and these are here. */
  readonly welcomed: (self: PeerId | null, peers: readonly Introduction[]) => void
  /** We are not on the topic any more, and reach nobody. */
  readonly parted: () => void
  readonly introduced: (introduction: Introduction) => void
  readonly left: (peer: PeerId) => void
  readonly relay: (frame: ArrayBuffer) => void
  readonly signal: (frame: ArrayBuffer) => void
  /** Something of what is told below changed. */
  readonly changed: () => void
}

/** How this tab stands on a page's topic: what it says there, and what the server says. */
export class Attendance {
  presence: Presence = { kind: 'joining' }
  counts: Counts = { watching: 0, holders: 0, partial: 0, nodes: { watching: 0, holders: 0, partial: 0 } }
  /** Whether somebody has a full copy; `null` until the server has told. */
  isLit: boolean | null = null
  stun: StunServer | null = null
  /** When somebody last had all of it; `null` while somebody has, or nobody has told. */
  litUntil: Millis | null = null
  readonly #deps: AttendanceDeps
  readonly #topic: Topic
  #announced: Have

  constructor(root: Cid, deps: AttendanceDeps) {
    this.#deps = deps
    this.#announced = deps.have()
    this.#topic = deps.connection.join(`page:${root.key}`, EVENTS, {
      params: () => ({ have: (this.#announced = deps.have()) }),
      joined: (response) => this.#handleJoined(response),
      refused: (response) => this.#handleRefused(response),
      lost: () => this.#handleLost(),
      message: (event, payload) => this.#handleEvent(event, payload),
    })
  }

  push(event: 'relay' | 'signal', frame: Bytes): Promise<Reply> {
    return this.#topic.push(event, frame)
  }

  /** Says how much of the page is here, when that has changed. */
  announce(): void {
    const have = this.#deps.have()
    if (have === this.#announced || !this.#topic.isJoined()) return
    this.#announced = have
    void this.#topic.push('have', { have })
  }

  /** Asks the server for others, and introduces them; those among them who are said to have everything. */
  async askForPeers(): Promise<PeerId[]> {
    if (this.#deps.isOver() || this.#hasAll || !this.#topic.isJoined()) return []
    const reply = await this.#topic.push('more_peers', {})
    if (reply.status !== 'ok' || this.#deps.isOver()) return []
    const introductions = readIntroductions(reply.response)
    for (const introduction of introductions) this.#deps.introduced(introduction)
    return introductions.filter(({ have }) => have === 'all').map(({ peer }) => peer)
  }

  leave(): void {
    this.#topic.leave()
  }

  #handleJoined(response: unknown): void {
    const { peers, counts, self, stun } = readWelcome(response)
    this.stun = stun
    this.presence = { kind: 'joined' }
    this.#learnCounts(counts)
    this.#learnLastLit(response)
    this.#deps.welcomed(self, peers)
    this.announce()
    this.#deps.changed()
  }

  #handleRefused(response: unknown): void {
    const reason = readReason(response)
    this.presence = { kind: 'refused', reason }
    if (reason === 'not a CID' || reason === DENIED) this.#topic.leave()
    this.#deps.changed()
  }

  #handleLost(): void {
    this.presence = { kind: 'offline' }
    this.#deps.parted()
    this.#deps.changed()
  }

  #handleEvent(event: string, payload: unknown): void {
    if (this.#deps.isOver()) return
    switch (event) {
      case 'relay':
        if (payload instanceof ArrayBuffer) this.#deps.relay(payload)
        break
      case 'signal':
        if (payload instanceof ArrayBuffer) this.#deps.signal(payload)
        break
      case 'peer_joined': {
        const introduction = readIntroduction(payload)
        if (introduction !== null) this.#deps.introduced(introduction)
        break
      }
      case 'peer_left': {
        const left = readIntroduction(payload)
        if (left !== null) this.#deps.left(left.peer)
        break
      }
      case 'counts':
        this.#learnCounts(readCounts(payload))
        this.#learnLastLit(payload)
        break
      case 'lit':
        this.isLit = true
        this.litUntil = null
        // Not everyone at once.
        if (!this.#hasAll) this.#deps.clock.after(this.#deps.random() * LIT_PAUSE_MAX, () => void this.askForPeers())
        break
      case 'dark':
        this.isLit = false
        this.litUntil = this.#deps.clock.now()
        break
      case DENIED:
        this.presence = { kind: 'refused', reason: DENIED }
        this.#topic.leave()
        this.#deps.parted()
        break
    }
    this.#deps.changed()
  }

  get #hasAll(): boolean {
    return this.#deps.have() === 'all'
  }

  #learnCounts(counts: Counts | null): void {
    if (counts === null) return
    this.counts = counts
    this.isLit = counts.holders > 0
    if (this.isLit) this.litUntil = null
  }

  #learnLastLit(told: unknown): void {
    const ago = readLastLit(told)
    if (ago !== null && this.isLit === false) this.litUntil = this.#deps.clock.now() - ago
  }

}
