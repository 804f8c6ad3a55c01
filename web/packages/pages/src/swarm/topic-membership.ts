import type { PeerId } from '../bitswap/index.ts'
import type { Connection, Reply, Topic } from '@watchfire/client/connection'
import type { Bytes, Cid } from '../content/index.ts'
import type { Counts, Have, Presence } from './api.ts'
import type { Clock, Millis } from './clock.ts'
import type { FirstRequest } from './first-request.ts'
import type { PagePeers } from './page-peers.ts'
import {
  readCounts,
  readPeerInfo,
  readPeerList,
  readLastAvailable,
  readRefusal,
  readJoinReply,
  type PeerInfo,
  type StunServer,
} from './server-messages.ts'

const EVENTS = ['relay', 'signal', 'peer_joined', 'peer_left', 'counts', 'available', 'unavailable', 'denied']
/** The operator has blocked this page. A join is rejected with this reason, and members get it as an event. */
const DENIED = 'denied'
/**
 * When the page becomes available, the longest wait before requesting more peers. It is random, so that not all viewers
 * send requests at once.
 */
const AVAILABLE_DELAY_MAX: Millis = 1000

export interface TopicMembershipDeps {
  readonly connection: Connection
  readonly clock: Clock
  readonly random: () => number
  /** The part of the page that is here. */
  readonly have: () => Have
  /** The span of the join in a distributed trace. `null`: it is not traced. */
  readonly trace: () => string | null
  /** A request that goes with the join. `null`: nothing is requested yet. */
  readonly first: () => FirstRequest | null
  /** Whether the page has failed or is closed. Events are then ignored. */
  readonly isOver: () => boolean
  /** The topic was joined. `self` is the new id of this tab. */
  readonly onJoined: (self: PeerId | null, peers: readonly PeerInfo[]) => void
  readonly peers: PagePeers
  /** One of the public fields changed. */
  readonly onChange: () => void
}

/** This tab's membership in a page's topic: the messages it sends there, and those it receives. */
export class TopicMembership {
  presence: Presence = { kind: 'joining' }
  counts: Counts = { watching: 0, holders: 0, partial: 0, nodes: { watching: 0, holders: 0, partial: 0 } }
  /** Whether any peer has a full copy. `null` until the server has reported it. */
  isAvailable: boolean | null = null
  stun: StunServer | null = null
  /** When a peer last had a full copy. `null` while one has it, or if unknown. */
  lastAvailableAt: Millis | null = null
  readonly #deps: TopicMembershipDeps
  readonly #topic: Topic
  #announced: Have

  constructor(root: Cid, deps: TopicMembershipDeps) {
    this.#deps = deps
    this.#announced = deps.have()
    this.#topic = deps.connection.join(`page:${root.key}`, EVENTS, {
      params: () => {
        const traceparent = deps.trace()
        this.#announced = deps.have()
        return { have: this.#announced, ...(traceparent === null ? {} : { traceparent }) }
      },
      first: () => {
        const request = deps.first()
        return request === null ? null : { event: 'relay', payload: request.frame, settle: request.settle }
      },
      joined: (response) => this.#handleJoined(response),
      refused: (response) => this.#handleRefused(response),
      lost: () => this.#handleLost(),
      message: (event, payload) => this.#handleEvent(event, payload),
    })
  }

  push(event: 'relay' | 'signal', frame: Bytes): Promise<Reply> {
    return this.#topic.push(event, frame)
  }

  /** Sends how much of the page is here, if that has changed. */
  announceHave(): void {
    const have = this.#deps.have()
    if (have === this.#announced || !this.#topic.isJoined()) return
    this.#announced = have
    void this.#topic.push('have', { have })
  }

  /** Sends the spans of this tab to the server. */
  report(spans: Record<string, unknown>): void {
    void this.#topic.push('trace', spans)
  }

  /** Requests more peers from the server, and adds them. Resolves with those that have a full copy. */
  async requestMorePeers(): Promise<PeerId[]> {
    if (this.#deps.isOver() || this.#hasAll || !this.#topic.isJoined()) return []
    const reply = await this.#topic.push('more_peers', {})
    if (reply.status !== 'ok' || this.#deps.isOver()) return []
    const introductions = readPeerList(reply.response)
    for (const introduction of introductions) this.#deps.peers.add(introduction)
    return introductions.filter(({ have }) => have === 'all').map(({ peer }) => peer)
  }

  leave(): void {
    this.#topic.leave()
  }

  #handleJoined(response: unknown): void {
    const { peers, counts, self, stun } = readJoinReply(response)
    this.stun = stun
    this.presence = { kind: 'joined' }
    this.#applyCounts(counts)
    this.#applyLastAvailable(response)
    this.#deps.onJoined(self, peers)
    this.announceHave()
    this.#deps.onChange()
  }

  #handleRefused(response: unknown): void {
    const { reason } = readRefusal(response)
    this.presence = { kind: 'refused', reason }
    if (reason === 'not a CID' || reason === DENIED) this.#topic.leave()
    this.#deps.onChange()
  }

  #handleLost(): void {
    this.presence = { kind: 'offline' }
    this.#deps.peers.removeAll()
    this.#deps.onChange()
  }

  #handleEvent(event: string, payload: unknown): void {
    if (this.#deps.isOver()) return
    switch (event) {
      case 'relay':
        if (payload instanceof ArrayBuffer) this.#deps.peers.handleRelay(payload)
        break
      case 'signal':
        if (payload instanceof ArrayBuffer) this.#deps.peers.handleSignal(payload)
        break
      case 'peer_joined': {
        const introduction = readPeerInfo(payload)
        if (introduction !== null) this.#deps.peers.add(introduction)
        break
      }
      case 'peer_left': {
        const left = readPeerInfo(payload)
        if (left !== null) this.#deps.peers.remove(left.peer)
        break
      }
      case 'counts':
        this.#applyCounts(readCounts(payload))
        this.#applyLastAvailable(payload)
        break
      case 'available':
        this.isAvailable = true
        this.lastAvailableAt = null
        // After a random time, so that not all viewers send requests at once.
        if (!this.#hasAll) this.#deps.clock.after(this.#deps.random() * AVAILABLE_DELAY_MAX, () => void this.requestMorePeers())
        break
      case 'unavailable':
        this.isAvailable = false
        this.lastAvailableAt = this.#deps.clock.now()
        break
      case DENIED:
        this.presence = { kind: 'refused', reason: DENIED }
        this.#topic.leave()
        this.#deps.peers.removeAll()
        break
    }
    this.#deps.onChange()
  }

  get #hasAll(): boolean {
    return this.#deps.have() === 'all'
  }

  #applyCounts(counts: Counts | null): void {
    if (counts === null) return
    this.counts = counts
    this.isAvailable = counts.holders > 0
    if (this.isAvailable) this.lastAvailableAt = null
  }

  #applyLastAvailable(seconds: unknown): void {
    const ago = readLastAvailable(seconds)
    if (ago !== null && this.isAvailable === false) this.lastAvailableAt = this.#deps.clock.now() - ago
  }
}
