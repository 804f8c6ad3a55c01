import type { Reply } from '@watchfire/client/connection'
import {
  encodeMessage,
  RecentSet,
  requestsBlocks,
  type Input,
  type Misbehaviour,
  type PeerId,
  type ReceivedWithHeads,
} from '../bitswap/index.ts'
import type { Bytes, Cid } from '../content/index.ts'
import type { Counts, Have, PeerKind, Presence } from './api.ts'
import type { AssemblyBudget } from './assembler.ts'
import type { Millis } from './clock.ts'
import type { DirectConnections, DirectEvent, DirectStatus, MessagePath } from './direct-paths.ts'
import type { SentSegment } from './outgoing.ts'
import { PageCounts } from './page-counts.ts'
import { HELD_MAX, Peer } from './peer.ts'
import { decodeRelayFrame, decodeSignalFrame, encodeRelayFrame, type Segment, type UnsentMessage } from './segment.ts'
import {
  readCounts,
  readJoinReply,
  readLastAvailable,
  readPeerInfo,
  readPeerList,
  readRefusal,
  type PeerInfo,
  type StunServer,
} from './server-messages.ts'
import { Signals } from './signals.ts'

/** The operator has blocked this page. A join is rejected with this reason, and members get it as an event. */
const DENIED = 'denied'
/**
 * When the page becomes available, the longest wait before requesting more peers. It is random, so that not all viewers
 * send requests at once.
 */
const AVAILABLE_DELAY_MAX: Millis = 1000
/** As the destination of a relay frame: the first peer of the join reply that has the whole page. */
const FIRST_HOLDER = '0'.repeat(16) as PeerId

/** Peers of one page that this tab exchanges messages with. When the limit is reached, further peers are not added. */
const PEERS_MAX = 64
/** Banned peers that are remembered. When the limit is reached, the one banned first is forgotten. */
const BANNED_MAX = 256
/** Actions that are due later. When the limit is reached, further ones are dropped: each is about one peer, or asks for more peers. */
const LATER_MAX = 256
/** Bytes of incomplete messages of all peers: at most, a base, and how many times the page's size. */
const ASSEMBLY_BYTES_MAX = 64 << 20
const ASSEMBLY_BYTES_BASE = 1 << 20
const ASSEMBLY_PAGES_MAX = 16

/** A page of this size is worth the time that a direct connection takes to come up: its blocks wait a moment for one. */
const LARGE_BYTES_MIN = 8 << 20
/**
 * Bytes exchanged with a peer before this tab connects to it directly. The peer with the higher id connects first, so
 * that not both do. The other one follows at the second limit.
 */
const DIRECT_AFTER_BYTES = 128 << 10
const DIRECT_FALLBACK_BYTES = 512 << 10
/**
 * With this many direct connections, a tab calls no more peers in order to request blocks from them. It still accepts calls, and
 * calls peers that request blocks from it. If it called all peers, newcomers would find only tabs that can take no more.
 */
const CALLS_TO_REQUEST_MAX = 6
/**
 * After its direct connection broke, a tab must send something in this time. It notices the break a few seconds earlier or
 * later, and then sends an empty message. A terminal sends none, and it also closes connections that are idle.
 */
const UNHEARD_MAX: Millis = 5_000
/** Peers send something at least this often while a page loads. */
export const QUIET_MAX: Millis = 2_000

/** The reason why a peer was dropped. `malformed`: it sent bytes that cannot be decoded. */
export type DropReason = Misbehaviour | 'malformed' | 'invalidSignals'

/**
 * Inputs of the exchange: a peer is gone, or has forgotten what it was sent; it sent a message, or a part of one; it has read messages
 * with blocks, and what it sent afterwards follows; its path has changed; the server has replied to `findProviders`.
 */
type ExchangeInput =
  | (Input & { readonly kind: 'disconnected' | 'partial-message' | 'acknowledged' | 'path' | 'providers' })
  | (ReceivedWithHeads & { readonly kind: 'message'; readonly peer: PeerId })

export type Output =
  | ExchangeInput
  /** Push this to the server. Its reply is an input with the same number. */
  | { readonly kind: 'push'; readonly ref: number; readonly event: string; readonly payload: Bytes | Record<string, unknown> }
  /** Leave the topic. The server has refused this page for good. */
  | { readonly kind: 'leave' }
  | { readonly kind: 'joined'; readonly peers: number }
  /** Messages can be sent to this peer. */
  | { readonly kind: 'connected'; readonly peer: PeerId }
  /** The part of the page that a peer has, as the server reports. */
  | { readonly kind: 'have'; readonly peer: PeerId; readonly have: Have }
  /** A peer was banned. */
  | { readonly kind: 'dropped'; readonly reason: DropReason }
  /** Decode a message, after the earlier ones of this peer. What it says is an input with the same number. */
  | { readonly kind: 'decode'; readonly ref: number; readonly peer: PeerId; readonly bytes: Bytes }
  /** A message was sent: the server has relayed it, or a direct connection has it. */
  | { readonly kind: 'sent'; readonly peer: PeerId; readonly blocks: readonly Cid[] }
  /** This tab begins to connect directly to a peer. */
  | { readonly kind: 'calling'; readonly peer: PeerId }
  /** Peers are silent that should send. The connection to the server may be gone with the network. */
  | { readonly kind: 'quiet' }

/** A request that goes to the server with the join, before this tab knows the peer that gets it. */
export interface FirstRequest {
  readonly id: number
  readonly message: Bytes
  /** The peer that got it. `null` until the join reply, and once this tab knows that peer. */
  peer: PeerId | null
  /** The segment that the server's reply concerns, once this tab knows the peer. */
  sent: { readonly peer: Peer; readonly segment: SentSegment | null } | null
}

export interface PageProtocolOptions {
  /** Returns numbers in [0, 1). */
  readonly random: () => number
  readonly pageBytesMax: number
  readonly frameBytesMax: number
  /** `null`: every message uses the relay. */
  readonly direct: DirectConnections | null
}

/**
 * The page protocol of this tab: its membership in a page's topic, and messages to the peers, over the relay and over direct
 * connections. It has no sockets and no clock. After each input, its driver performs all outputs, and calls `handleTick` at
 * `nextWake`. Only the direct connections, which belong to the driver, are called immediately.
 *
 * If a direct connection breaks, messages that may not have arrived are sent through the relay under the same number. By that number,
 * the other side detects messages that it has read already. Short messages arrive in order, also when the path changes. A `cancel`
 * that arrived after the `want-have` that follows it would remove that want-have, and nobody would send it again.
 */
export class PageProtocol {
  presence: Presence = { kind: 'joining' }
  /** The part of the page that is here. */
  have: Have = 'none'
  stun: StunServer | null = null
  /** The id of this tab, which no other peer has. */
  self: PeerId | null = null
  readonly #options: PageProtocolOptions
  readonly #peers = new Map<PeerId, Peer>()
  readonly #banned = new RecentSet<PeerId>(BANNED_MAX)
  readonly #counts = new PageCounts()
  readonly #signals = new Signals()
  readonly #budget: AssemblyBudget
  /** The request that went with the latest join. */
  #first: FirstRequest | null = null
  #announced: Have = 'none'
  #isLarge = false
  /** When all peers are silent, unless one sends something before. `Infinity` after that. */
  #quietAt: Millis = Infinity
  /** Actions that are due later. */
  #later: { readonly at: Millis; readonly happen: (now: Millis) => void }[] = []
  #refs = 0
  /** Pushes without a reply so far. */
  readonly #pushed = new Map<number, (now: Millis, reply: Reply) => void>()
  /** Messages that are being decoded. */
  readonly #decoding = new Map<number, (now: Millis, received: ReceivedWithHeads | null) => void>()
  #outputs: Output[] = []
  /** Whether the page has failed or is closed. */
  isOver = false

  constructor(options: PageProtocolOptions) {
    this.#options = options
    this.#budget = {
      bytesMax: Math.min(ASSEMBLY_BYTES_MAX, ASSEMBLY_BYTES_BASE + ASSEMBLY_PAGES_MAX * options.pageBytesMax),
      bytes: 0,
    }
  }

  get hasOutputs(): boolean {
    return this.#outputs.length > 0
  }

  pollOutput(): Output | null {
    return this.#outputs.shift() ?? null
  }

  /** When to call `handleTick`. `Infinity`: after another input. */
  nextWake(): Millis {
    const retries = [...this.#peers.values()].map(({ outgoing }) => outgoing.nextWake())
    const later = this.#later.map(({ at }) => at)
    return Math.min(this.#quietAt, this.#signals.nextWake(), this.#counts.nextWake(), ...retries, ...later)
  }

  handleTick(now: Millis): void {
    this.#counts.handleTick(now)
    for (const [to, frame] of this.#signals.takeDue(now)) this.#pushSignal(to, frame)
    if (this.#quietAt <= now) {
      this.#quietAt = Infinity
      if (this.have !== 'all') this.#put({ kind: 'quiet' })
    }
    const due = this.#later.filter(({ at }) => at <= now)
    this.#later = this.#later.filter(({ at }) => at > now)
    for (const { happen } of due) happen(now)
    for (const peer of this.#peers.values()) this.#sendSegments(now, peer)
  }

  /** The page has failed or is closed. All peers are removed, and there are no others. */
  end(now: Millis): void {
    this.isOver = true
    this.#later = []
    this.#quietAt = Infinity
    this.#removeAll(now)
  }

  /** Sets the part of the page that is here, and the bytes of the whole page. `null`: unknown. */
  setHave(have: Have, bytesTotal: number | null): void {
    this.have = have
    this.#isLarge = (bytesTotal ?? 0) >= LARGE_BYTES_MIN
    this.#announceHave()
  }

  #announceHave(): void {
    if (this.have === this.#announced || this.presence.kind !== 'joined') return
    this.#announced = this.have
    this.#push('have', { have: this.have }, () => {})
  }

  /** The parameters of the next join. Call it before `requestFirst`. */
  joinParams(): { readonly have: Have } {
    this.#announced = this.have
    this.#first = null
    return { have: this.have }
  }

  /**
   * The frame of a request that goes with the next join. It is not sent again to the peer that gets it. `settle` is called with the
   * server's reply, which may come after a later join. After a join at another server, its caller sets `first.peer`.
   */
  requestFirst(message: Bytes): {
    readonly first: FirstRequest
    readonly payload: Bytes
    readonly settle: (now: Millis, reply: Reply) => void
  } {
    const first: FirstRequest = { id: this.#randomNumber(), message, peer: null, sent: null }
    this.#first = first
    return {
      first,
      payload: encodeRelayFrame(FIRST_HOLDER, { message: first.id, offset: 0, total: message.length, bytes: message }),
      settle: (now, reply) => {
        const { sent } = first
        // A message that the server could not deliver is sent again.
        if (sent?.segment) this.#handleRelayReply(now, sent.peer, sent.segment, reply.status === 'ok' ? reply : { status: 'timeout' })
      },
    }
  }

  /** The topic was joined. The server gives every peer a new id at each join. */
  handleJoined(now: Millis, response: unknown): void {
    const { peers, counts, self, stun } = readJoinReply(response)
    this.stun = stun
    this.presence = { kind: 'joined' }
    this.#applyCounts(now, counts, response)
    this.#put({ kind: 'joined', peers: peers.length })
    // The server may not know yet that the earlier connection of this tab is gone, and then names it as a peer.
    if (this.self !== null && this.self !== self) this.#banned.add(this.self)
    this.self = self
    this.#removeAll(now)
    if (this.#first !== null) this.#first.peer = peers.find(({ have }) => have === 'all')?.peer ?? null
    for (const peer of peers) this.#add(peer)
    this.#announceHave()
    this.#noteAllComplete()
  }

  handleRefused(response: unknown): void {
    const { reason } = readRefusal(response)
    this.presence = { kind: 'refused', reason }
    if (reason === 'not a CID' || reason === DENIED) this.#put({ kind: 'leave' })
  }

  /** The connection to the server is gone. */
  handleLost(now: Millis): void {
    this.presence = { kind: 'offline' }
    // The next join may be one at another server, without a request.
    this.#first = null
    this.#removeAll(now)
  }

  /** The server sent an event. It can be anything. */
  handleEvent(now: Millis, event: string, payload: unknown): void {
    if (this.isOver) return
    switch (event) {
      case 'relay': {
        const relayed = payload instanceof ArrayBuffer ? decodeRelayFrame(payload) : null
        if (relayed !== null) this.#handleSegment(now, relayed.from, relayed.segment, false)
        break
      }
      case 'signal':
        if (payload instanceof ArrayBuffer) this.#handleSignal(now, payload)
        break
      case 'peer_joined': {
        const introduction = readPeerInfo(payload)
        if (introduction !== null) this.#add(introduction)
        break
      }
      case 'peer_left': {
        const left = readPeerInfo(payload)
        if (left !== null) this.remove(now, left.peer)
        break
      }
      case 'counts':
        this.#applyCounts(now, readCounts(payload), payload)
        break
      case 'available':
        this.#counts.setAvailable(now, true)
        // After a random time, so that not all viewers send requests at once.
        if (this.have !== 'all') this.#at(now + this.#options.random() * AVAILABLE_DELAY_MAX, () => this.#requestMorePeers(() => {}))
        break
      case 'unavailable':
        this.#counts.setAvailable(now, false)
        break
      case DENIED:
        this.presence = { kind: 'refused', reason: DENIED }
        this.#put({ kind: 'leave' })
        this.#removeAll(now)
        break
    }
    this.#noteAllComplete()
  }

  handleReply(now: Millis, ref: number, reply: Reply): void {
    const handle = this.#pushed.get(ref)
    this.#pushed.delete(ref)
    handle?.(now, reply)
  }

  /** Asks the server for more peers. The output `providers` names those of them that have a full copy. */
  findProviders(): void {
    this.#requestMorePeers((peers) => this.#put({ kind: 'providers', peers }))
  }

  #requestMorePeers(settle: (holders: readonly PeerId[]) => void): void {
    if (this.have === 'all' || this.presence.kind !== 'joined') {
      settle([])
      return
    }
    this.#push('more_peers', {}, (_now, reply) => {
      const peers = reply.status === 'ok' ? readPeerList(reply.response) : []
      for (const peer of peers) this.#add(peer)
      settle(peers.filter(({ have }) => have === 'all').map(({ peer }) => peer))
    })
  }

  #applyCounts(now: Millis, counts: Counts | null, message: unknown): void {
    if (counts !== null) this.#counts.applyCounts(counts)
    const ago = readLastAvailable(message)
    if (ago !== null) this.#counts.applyLastAvailable(now - ago)
  }

  /**
   * If all viewers, this tab included, have a full copy by the server's counts, so has each peer. Peers do not announce that themselves.
   * Not if the counts are older than a peer that joined since.
   */
  #noteAllComplete(): void {
    const { watching, holders } = this.#counts.counts
    if (watching === 0 || holders < watching || this.#peers.size >= watching) return
    for (const peer of this.#peers.values()) if (peer.have !== 'all') this.#setHave(peer, 'all')
  }

  /** How many have the page open, and whether one of them has all of it. */
  get counts(): Pick<PageCounts, 'counts' | 'isAvailable' | 'lastAvailableAt'> {
    return this.#counts
  }

  /** The peers now. */
  get peers(): ReadonlyMap<PeerId, Pick<Peer, 'have' | 'kind' | 'isDirect' | 'roomBytes'>> {
    return this.#peers
  }

  /** The state of the direct connection to a peer. */
  directStatus(peer: PeerId): DirectStatus {
    const status = this.#options.direct?.status(peer)
    // This tab never calls a node, so it will not try again either.
    const isConnecting = status !== undefined && status.kind !== 'untried' && status.kind !== 'none'
    if (this.#peers.get(peer)?.kind === 'node' && !isConnecting) return { kind: 'none', why: 'node', failures: 0, again: null }
    return status ?? { kind: 'none', why: 'absent', failures: 0, again: null }
  }

  /** Removes a peer that misbehaves, and does not let it come back. */
  ban(now: Millis, peer: PeerId, reason: DropReason): void {
    this.#banned.add(peer)
    if (!this.#peers.has(peer)) return
    this.remove(now, peer)
    this.#put({ kind: 'dropped', reason })
  }

  /** The peer has left, or cannot be reached any more. */
  remove(now: Millis, id: PeerId): void {
    this.#counts.noteLeft(now, id)
    const peer = this.#peers.get(id)
    if (peer === undefined) return
    peer.clear()
    this.#peers.delete(id)
    this.#options.direct?.forget(id)
    this.#put({ kind: 'disconnected', peer: id })
  }

  #removeAll(now: Millis): void {
    this.#counts.clearSilent()
    for (const id of [...this.#peers.keys()]) this.remove(now, id)
  }

  /** The server named a peer. Returns it, unless it is banned or this tab, or there is no room. */
  #add({ peer: id, have, kind }: PeerInfo): Peer | null {
    const known = this.#peers.get(id)
    if (known !== undefined) known.kind = kind
    const peer = known ?? this.#admit(id, have, kind)
    if (peer === null) return null
    this.#counts.deleteSilent(id)
    this.#setHave(peer, have)
    if (known === undefined) this.#put({ kind: 'connected', peer: id })
    return peer
  }

  #admit(id: PeerId, have: Have, kind: PeerKind): Peer | null {
    if (this.isOver || id === this.self || this.#banned.has(id) || this.#peers.size >= PEERS_MAX) return null
    // Random: a peer that knew this tab before remembers the numbers it has read, and would drop new messages with the same numbers.
    const first = this.#first?.peer === id ? this.#first : null
    const peer = new Peer(id, have, kind, first?.id ?? this.#randomNumber(), this.#options.frameBytesMax, this.#budget)
    if (first !== null) {
      first.peer = null
      first.sent = { peer, segment: peer.addFirst(first.message) }
    }
    this.#peers.set(id, peer)
    return peer
  }

  #setHave(peer: Peer, have: Have): void {
    peer.have = have
    this.#put({ kind: 'have', peer: peer.id, have })
  }

  #isPeer(peer: Peer): boolean {
    return this.#peers.get(peer.id) === peer
  }

  /** Sends a message. The output `sent` follows, unless the peer is lost. `isRequest`: it requests blocks. */
  send(now: Millis, id: PeerId, bytes: Bytes, blocks: readonly Cid[] = [], isRequest = false): void {
    const peer = this.#peers.get(id)
    if (peer === undefined) return
    const message = peer.add(bytes, blocks)
    if (message !== null) this.#sendOnPath(now, peer, message)
    // Before it was sent: over the relay, that takes as long as it takes to set up a direct connection.
    // This tab calls a peer in order to request blocks unless it has several connections already.
    this.#connectIfBusy(peer, isRequest && (this.#options.direct?.size ?? 0) < CALLS_TO_REQUEST_MAX)
    if (isRequest) this.#expectHeld(now, peer)
  }

  #randomNumber(): number {
    return Math.floor(this.#options.random() * 2 ** 32)
  }

  #sendOnPath(now: Millis, peer: Peer, message: UnsentMessage): void {
    peer.send(now, message, () => this.#isConnecting(peer))
    this.#sendSegments(now, peer)
  }

  #sendSegments(now: Millis, peer: Peer): void {
    for (let next = peer.outgoing.next(now); next !== null; next = peer.outgoing.next(now)) {
      const { sent, segment } = next
      this.#push('relay', encodeRelayFrame(peer.id, segment), (at, reply) => this.#handleRelayReply(at, peer, sent, reply))
    }
  }

  #handleRelayReply(now: Millis, peer: Peer, segment: SentSegment, reply: Reply): void {
    if (!this.#isPeer(peer)) return
    let isReachable = reply.status === 'ok'
    if (reply.status === 'ok') {
      const message = peer.outgoing.handleRelayed(segment)
      if (message !== null) this.#reportSent(peer, message)
    } else if (reply.status === 'error') isReachable = peer.outgoing.handleError(now, segment, reply.response)
    else if (reply.status === 'timeout') isReachable = peer.outgoing.handleTimeout(segment)
    if (isReachable) this.#sendSegments(now, peer)
    // The peer has lost the server, and not this tab.
    else if (peer.isDirect) for (const message of peer.outgoing.takeForDirect(true)) this.#sendOnPath(now, peer, message)
    else this.remove(now, peer.id)
  }

  /** A message counts as sent once, although it may be sent again on the other path. */
  #reportSent(peer: Peer, message: UnsentMessage): void {
    if (peer.noteSent(message)) this.#put({ kind: 'sent', peer: peer.id, blocks: message.blocks })
  }

  #handleSegment(now: Millis, id: PeerId, segment: Segment, isDirect: boolean): void {
    const peer = this.#heard(now, id)
    if (peer === null) return
    const received = peer.receive(now, segment, isDirect)
    if (received === 'partial') this.#put({ kind: 'partial-message', peer: id })
    else if (received === 'malformed') this.ban(now, id, received)
    else if (received !== 'dropped') this.#decode(peer, segment.message, received, isDirect)
  }

  #decode(peer: Peer, number: number, bytes: Bytes, isDirect: boolean): void {
    const finish = peer.beginDecoding(number, bytes)
    this.#connectIfBusy(peer)
    if (finish === null) return
    this.#decoding.set(++this.#refs, (now, received) => {
      const acknowledged = finish()
      if (!this.#isPeer(peer)) return
      // The relay needs no acknowledgement.
      if (isDirect) peer.path?.acknowledge(number)
      this.#handleMessage(now, peer, number, received, acknowledged)
    })
    this.#put({ kind: 'decode', ref: this.#refs, peer: peer.id, bytes })
  }

  /** A message was decoded. `null` if that is not possible. */
  handleDecoded(now: Millis, ref: number, received: ReceivedWithHeads | null): void {
    const handle = this.#decoding.get(ref)
    this.#decoding.delete(ref)
    handle?.(now, received)
  }

  #handleMessage(now: Millis, peer: Peer, number: number, received: ReceivedWithHeads | null, acknowledged: number): void {
    const { id } = peer
    if (peer.noteRead(number)) {
      // The peer lost its connection for a while, and with it our wants.
      this.#put({ kind: 'disconnected', peer: id })
      this.#setHave(peer, peer.have)
      this.#put({ kind: 'connected', peer: id })
    }
    if (received === null) {
      this.ban(now, id, 'malformed')
      return
    }
    if (requestsBlocks(received.message)) this.#connectIfBusy(peer, true)
    const messages = peer.takeAcknowledged(acknowledged)
    if (messages !== null) this.#put({ kind: 'acknowledged', peer: id, messages })
    this.#put({ kind: 'message', peer: id, ...received })
  }

  /** A peer sent something. It may learn of this tab from the server first, and send before the server names it here. */
  #heard(now: Millis, id: PeerId): Peer | null {
    const peer = this.#peers.get(id) ?? this.#add({ peer: id, have: 'none', kind: 'tab' })
    if (peer === null) return null
    peer.heardAt = now
    // A tab that waits for blocks sends nothing, so it would not notice by itself that its network is gone.
    this.#quietAt = now + QUIET_MAX
    return peer
  }

  #handleSignal(now: Millis, frame: ArrayBuffer): void {
    const received = decodeSignalFrame(frame)
    const { direct } = this.#options
    if (received === null || direct === null) return
    if (this.#heard(now, received.from) !== null) direct.handleSignal(received.from, received.signal)
  }

  /** Sends a signal of a direct connection. `settle` is called with whether it was delivered. */
  sendSignal(now: Millis, to: PeerId, signal: Bytes, settle: (isDelivered: boolean) => void): void {
    const frame = this.#signals.push(now, to, signal, settle)
    if (frame !== null) this.#pushSignal(to, frame)
  }

  #pushSignal(to: PeerId, frame: Bytes): void {
    this.#push('signal', frame, (now, reply) => {
      const next = this.#signals.handleReply(now, to, reply)
      if (next !== null) this.#pushSignal(to, next)
    })
  }

  handleDirect(now: Millis, event: DirectEvent): void {
    const id = event.peer
    const peer = this.#peers.get(id)
    switch (event.kind) {
      case 'up':
        if (peer !== undefined) this.#useDirect(now, peer, event.path)
        this.#put({ kind: 'path', peer: id, isDirect: true })
        // The peer may have held its answers for this path. They come now, so it must not time out before.
        this.#put({ kind: 'partial-message', peer: id })
        return
      case 'down':
        this.#put({ kind: 'path', peer: id, isDirect: false })
        if (peer !== undefined) this.#useRelay(now, peer, event.unread)
        return
      case 'ended':
        // While a path is only down, partial messages may still complete.
        peer?.direct.clear()
        return
      case 'segment':
        this.#handleSegment(now, id, event.segment, true)
        return
      case 'sent':
        if (peer !== undefined) this.#reportSent(peer, event.message)
        return
      case 'quiet':
        this.#put(event)
        return
      case 'misbehaved':
        this.ban(now, id, 'invalidSignals')
        return
    }
  }

  /** New messages use the direct path from now on, and so do short ones, and long ones that have not begun. */
  #useDirect(now: Millis, peer: Peer, path: MessagePath): void {
    for (const message of peer.useDirect(path)) this.#sendOnPath(now, peer, message)
  }

  /** Messages use the relay again, because the direct path is gone or not usable for now. */
  #useRelay(now: Millis, peer: Peer, unread: readonly UnsentMessage[]): void {
    for (const message of unread) if (!message.isRelayed) peer.outgoing.push(message)
    this.#sendSegments(now, peer)
    this.#checkReachable(now, peer)
  }

  /**
   * Sends an empty message to a peer whose direct connection broke. The reply shows whether the peer is still there.
   * The server reports leaving peers only to their neighbours, and this tab may wait for blocks of this peer. The server may also
   * believe that a peer is there whose network is gone. Blocks for it would then delay those for others.
   */
  #checkReachable(brokeAt: Millis, peer: Peer): void {
    this.#at(brokeAt + UNHEARD_MAX, (now) => {
      const isSilent = peer.kind === 'tab' && peer.heardAt <= brokeAt && !peer.isDirect
      if (!isSilent || !this.#isPeer(peer)) return
      this.remove(now, peer.id)
      this.#counts.addSilent(now, peer.id, peer.have)
    })
    this.send(brokeAt, peer.id, encodeMessage({ full: false, wants: [], presences: [], pendingBytes: 0 }))
  }

  /**
   * Connects directly to a peer once many bytes were exchanged with it. `requestsBlocks`: one of the two requests blocks
   * from the other, so on a large page many bytes will follow.
   */
  #connectIfBusy({ id, kind, isDirect, movedBytes }: Peer, requestsBlocks = false): void {
    const { direct } = this.#options
    // A terminal calls this tab. Another node cannot answer: the attempt would occupy a connection until it times out.
    if (direct === null || kind === 'node') return
    const isFirst = (this.self ?? '') > id
    const isExpected = isFirst && requestsBlocks && this.#isLarge
    const enough = isExpected ? 0 : isFirst ? DIRECT_AFTER_BYTES : DIRECT_FALLBACK_BYTES
    if (isDirect || movedBytes < enough) return
    this.#put({ kind: 'calling', peer: id })
    direct.connect(id)
  }

  /**
   * Blocks are requested from a peer. On a large page it may hold them for the direct connection, so it gets that much more time
   * to answer, once.
   */
  #expectHeld(now: Millis, peer: Peer): void {
    if (peer.isExcused || !this.#isConnecting(peer)) return
    peer.isExcused = true
    this.#at(now + HELD_MAX, () => {
      if (this.#isPeer(peer)) this.#put({ kind: 'partial-message', peer: peer.id })
    })
  }

  /** Whether a direct connection to a peer is likely to be up soon, so that blocks of a large page wait for it. */
  #isConnecting({ id, kind }: Peer): boolean {
    if (!this.#isLarge || kind === 'node') return false
    const status = this.#options.direct?.status(id)
    return status?.kind === 'untried' || status?.kind === 'calling'
  }

  #at(at: Millis, happen: (now: Millis) => void): void {
    if (this.#later.length < LATER_MAX) this.#later.push({ at, happen })
  }

  #push(event: string, payload: Bytes | Record<string, unknown>, handleReply: (now: Millis, reply: Reply) => void): void {
    this.#pushed.set(++this.#refs, handleReply)
    this.#put({ kind: 'push', ref: this.#refs, event, payload })
  }

  #put(output: Output): void {
    this.#outputs.push(output)
  }
}
