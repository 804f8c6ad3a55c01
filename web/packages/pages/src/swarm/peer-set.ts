import { encodeMessage, requestsBlocks, type HeadMessage, type Input, type PeerId } from '../bitswap/index.ts'
import type { Reply } from '@watchfire/client/connection'
import type { Bytes } from '../content/index.ts'
import type { Clock, Millis } from './clock.ts'
import type { DirectStatus } from './direct-status.ts'
import { HELD_MAX } from './dual-path-peer.ts'
import { AssemblyBudget, type AssemblyResult } from './message-assembler.ts'
import { LazyDirectConnections, type LoadDirectConnections } from './lazy-direct-connections.ts'
import { PeerRoster, type Member } from './peer-roster.ts'
import { QuietWatch } from './quiet-watch.ts'
import { decodeRelayFrame, decodeSignalFrame, type Segment } from './segment.ts'
import { SignalSender } from './signal-sender.ts'
import type { PeerInfo, StunServer } from './server-messages.ts'

/** Bytes of incomplete messages of all peers: at most, a base, and how many times the page's size. */
const ASSEMBLY_BYTES_MAX = 64 << 20
const ASSEMBLY_BYTES_BASE = 1 << 20
const ASSEMBLY_PAGES_MAX = 16
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
/** The time between two `partial-message` inputs for one direct connection. */
const PROGRESS_INTERVAL: Millis = 100

/**
 * After its direct connection broke, a tab must send something in this time. It notices the break a few seconds earlier or
 * later, and then sends an empty message. A terminal sends none, and it also closes connections that are idle.
 */
const UNHEARD_MAX: Millis = 5_000

/** The largest difference between the numbers of two messages that are read one after the other. */
const REORDERED_MESSAGES_MAX = 2 ** 16

export interface PeerSetDeps {
  readonly clock: Clock
  readonly random: () => number
  readonly pageBytesMax: number
  readonly frameBytesMax: number
  readonly push: (event: 'relay' | 'signal', frame: Bytes) => Promise<Reply>
  readonly stun: () => StunServer | null
  /** Loads direct connections. `null`: none. */
  readonly loadDirect: LoadDirectConnections | null
  /** Whether the page has failed or is closed. */
  readonly isOver: () => boolean
  /** The server named a peer. `isNew`: it was not known before. */
  readonly onMember: (member: Member, isNew: boolean) => void
  /** Whether the page is large: blocks then wait a moment for a direct connection that comes up. */
  readonly isLarge: () => boolean
  /** Resolves when the store has room for more blocks. `null`: there is room now. */
  readonly room: () => Promise<void> | null
  /** Passes an input to the exchange. */
  readonly handleInput: (input: Input) => void
  /** The peer sent heads of a live page. */
  readonly onHeads: (peer: PeerId, received: HeadMessage) => void
  /** The peer sent bytes that cannot be decoded. */
  readonly onMalformed: (peer: PeerId) => void
  /** The peer was banned because of invalid signals, or invalid frames on a direct connection. */
  readonly onBadSignal: () => void
  /** This tab begins to connect directly to a peer. */
  readonly onConnecting: (peer: PeerId) => void
  /** The direct connection to a peer is up. */
  readonly onDirect: (peer: PeerId) => void
  /** A tab is silent although the server says that it is there. It is removed. */
  readonly onSilent: (member: Member) => void
  /** The path to a peer changed. */
  readonly onChange: () => void
  /** Whether blocks of the page are still missing here. */
  readonly isLoading: () => boolean
  /** Peers are silent that should send. The connection to the server may be gone with the network. */
  readonly onQuiet: () => void
}

/** The peers of a page: sends them messages and receives theirs, over the relay and over direct connections. */
export class PeerSet {
  readonly roster: PeerRoster
  readonly #deps: PeerSetDeps
  /** `null` if there are no direct connections. */
  readonly #direct: LazyDirectConnections | null
  /** Peers that got more time to answer, see `expectHeld`. */
  readonly #isExcused = new WeakSet<Member>()
  readonly #quietWatch: QuietWatch

  constructor(deps: PeerSetDeps) {
    this.#deps = deps
    this.#quietWatch = new QuietWatch(deps.clock, () => {
      if (deps.isLoading() && !deps.isOver()) deps.onQuiet()
    })
    this.roster = new PeerRoster(new AssemblyBudget(assemblyBytesMax(deps.pageBytesMax)), {
      push: (frame) => deps.push('relay', frame),
      clock: deps.clock,
      random: deps.random,
      frameBytesMax: deps.frameBytesMax,
      isConnecting: (peer) => this.#isConnecting(peer),
    })
    this.#direct = deps.loadDirect === null ? null : this.#makeDirect(deps.loadDirect)
    if (this.#direct !== null) globalThis.addEventListener?.('pagehide', this.#closeDirect)
  }

  add({ peer, have, kind }: PeerInfo): Member | null {
    if (this.#deps.isOver()) return null
    const before = this.roster.get(peer)
    const member = before ?? this.roster.admit(peer, have, kind)
    if (before !== null) Object.assign(before, { have, kind })
    if (member === null) return null
    this.#deps.onMember(member, before === null)
    return member
  }

  /** The peer has left. */
  remove(peer: PeerId): void {
    const member = this.roster.remove(peer)
    if (member !== null) this.#disconnect(member)
  }

  removeAll(): void {
    for (const member of this.roster.clear()) this.#disconnect(member)
  }

  /** Removes a peer that misbehaves, and does not let it come back. */
  ban(peer: PeerId): Member | null {
    const member = this.roster.ban(peer)
    if (member !== null) this.#disconnect(member)
    return member
  }

  /**
   * Connects directly to a peer once many bytes were exchanged with it. `requestsBlocks`: one of the two requests blocks
   * from the other, so on a large page many bytes will follow.
   */
  connectIfBusy({ peer, kind }: Member, requestsBlocks = false): void {
    // A terminal calls this tab. Another node cannot answer: the attempt would occupy a connection until it times out.
    if (kind === 'node') return
    const isFirst = (this.roster.self ?? '') > peer.id
    const isExpected = isFirst && requestsBlocks && this.#deps.isLarge()
    const enough = isExpected ? 0 : isFirst ? DIRECT_AFTER_BYTES : DIRECT_FALLBACK_BYTES
    if (peer.path !== 'relay' || peer.movedBytes < enough || this.#direct === null) return
    this.#deps.onConnecting(peer.id)
    this.#direct.connect(peer.id)
  }

  /** Blocks are about to be requested from a peer. This tab calls it unless it has several connections already. */
  connectToRequest(member: Member): void {
    if (this.#direct !== null && this.#direct.size < CALLS_TO_REQUEST_MAX) this.connectIfBusy(member, true)
  }

  /**
   * Blocks are requested from a peer. On a large page it may hold them for the direct connection, so it gets that much more time
   * to answer, once.
   */
  expectHeld(member: Member): void {
    const { id } = member.peer
    if (this.#isExcused.has(member) || !this.#isConnecting(id)) return
    this.#isExcused.add(member)
    this.#deps.clock.after(HELD_MAX, () => {
      if (this.roster.isMember(member)) this.#deps.handleInput({ kind: 'partial-message', peer: id })
    })
  }

  /** The state of the direct connection to a peer. */
  directStatus(peer: PeerId): DirectStatus {
    const reach = this.#direct?.status(peer)
    // This tab never calls a node, so it will not try again either.
    const isConnecting = reach !== undefined && reach.kind !== 'untried' && reach.kind !== 'none'
    if (this.roster.get(peer)?.kind === 'node' && !isConnecting) {
      return { kind: 'none', why: 'node', failures: 0, again: null }
    }
    return reach ?? { kind: 'none', why: 'absent', failures: 0, again: null }
  }

  /** Whether a direct connection to a peer is likely to be up soon, so that blocks of a large page wait for it. */
  #isConnecting(peer: PeerId): boolean {
    if (!this.#deps.isLarge() || this.roster.get(peer)?.kind === 'node') return false
    const status = this.#direct?.status(peer)
    return status?.kind === 'untried' || status?.kind === 'calling'
  }

  close(): void {
    for (const member of this.roster.clear()) member.peer.close()
    this.#direct?.close()
    this.#quietWatch.close()
    globalThis.removeEventListener?.('pagehide', this.#closeDirect)
  }

  handleRelay(frame: ArrayBuffer): void {
    const relayed = decodeRelayFrame(frame)
    if (relayed !== null) this.#handleSegment(relayed.from, relayed.segment, false)
  }

  handleSignal(frame: ArrayBuffer): void {
    const received = decodeSignalFrame(frame)
    if (received === null || this.#direct === null) return
    const member = this.#memberOf(received.from)
    if (member === null) return
    this.#noteHeard(member)
    this.#direct.handleSignal(received.from, received.signal)
  }

  #noteHeard(member: Member): void {
    member.heardAt = this.#deps.clock.now()
    this.#quietWatch.noteHeard()
  }

  #handleSegment(peer: PeerId, segment: Segment, isDirect: boolean): void {
    const member = this.#memberOf(peer)
    if (member === null || this.#deps.isOver()) return
    this.#noteHeard(member)
    const id = segment.message
    const wasRead = member.read.has(id)
    // Its sender does not know that: a direct connection broke before its acknowledgement, or the server's reply was late.
    if (wasRead && !isDirect) return
    const now = this.#deps.clock.now()
    const assembled: AssemblyResult = (isDirect ? member.direct : member.relayed).add(now, segment)
    switch (assembled.kind) {
      case 'partial':
        if (isDirect) {
          if (now - member.progressReportedAt < PROGRESS_INTERVAL) return
          member.progressReportedAt = now
        }
        this.#deps.handleInput({ kind: 'partial-message', peer })
        return
      case 'malformed':
        this.#deps.onMalformed(peer)
        return
      case 'forgotten':
        return
      case 'complete': {
        // The relay needs no acknowledgement.
        const acknowledge = () => {
          if (isDirect) member.peer.acknowledge(id)
        }
        if (wasRead) {
          acknowledge()
          return
        }
        // The number counts from now on: the same message may come by the other path while this one waits, and must not follow it.
        if (this.#read(member, id, assembled.message, acknowledge)) member.read.add(id)
        return
      }
    }
  }

  /** A peer may learn of this tab from the server first, and send before the server names it here. */
  #memberOf(peer: PeerId): Member | null {
    return this.roster.get(peer) ?? this.add({ peer, have: 'none', kind: 'tab' })
  }

  #disconnect(member: Member): void {
    member.peer.close()
    this.#direct?.forget(member.peer.id)
    this.#deps.handleInput({ kind: 'disconnected', peer: member.peer.id })
  }

  /** Returns whether the message will be read. */
  #read(member: Member, id: number, bytes: Bytes, whenRead: () => void): boolean {
    member.peer.movedBytes += bytes.length
    this.connectIfBusy(member)
    // The peer had read this much when it sent the message, which waits here.
    const acknowledged = member.peer.acknowledgedMessages
    return member.inbox.read(bytes, this.#deps.room, (received) => {
      if (!this.roster.isMember(member) || this.#deps.isOver()) return
      whenRead()
      const peer = member.peer.id
      if (hasRestarted(member.lastRead, id)) {
        // The peer lost its connection for a while, and with it our wants.
        this.#deps.handleInput({ kind: 'disconnected', peer })
        this.#deps.onMember(member, true)
      }
      member.lastRead = id
      if (received === null) this.#deps.onMalformed(peer)
      else {
        if (requestsBlocks(received.message)) this.connectIfBusy(member, true)
        this.#reportAcknowledged(member, acknowledged)
        this.#deps.handleInput({ kind: 'message', peer, ...received })
        if (received.heads.length > 0) this.#deps.onHeads(peer, received)
      }
    })
  }

  #reportAcknowledged(member: Member, acknowledged: number): void {
    const messages = acknowledged - member.blockMessagesBefore
    if (messages <= member.acknowledgedReported) return
    member.acknowledgedReported = messages
    this.#deps.handleInput({ kind: 'acknowledged', peer: member.peer.id, messages })
  }

  /**
   * Sends an empty message to a peer whose direct connection broke. The reply shows whether the peer is still there.
   * The server reports leaving peers only to their neighbours, and this tab may wait for blocks of this peer. The server may also
   * believe that a peer is there whose network is gone. Blocks for it would then delay those for others.
   */
  #checkReachable(member: Member): void {
    const brokeAt = this.#deps.clock.now()
    this.#deps.clock.after(UNHEARD_MAX, () => {
      const isSilent = member.kind === 'tab' && member.heardAt <= brokeAt && member.peer.path !== 'direct'
      if (!isSilent || !this.roster.isMember(member) || this.#deps.isOver()) return
      this.#deps.onSilent(member)
      this.remove(member.peer.id)
      this.#deps.onChange()
    })
    member.peer.send(encodeMessage({ full: false, wants: [], presences: [], pendingBytes: 0 }, [])).catch(() => {
      if (this.roster.isMember(member)) this.remove(member.peer.id)
    })
  }

  readonly #closeDirect = () => this.#direct?.closeAll()

  #makeDirect(load: LoadDirectConnections): LazyDirectConnections {
    const { clock, random } = this.#deps
    const sender = new SignalSender((frame) => this.#deps.push('signal', frame), clock)
    return new LazyDirectConnections(load, {
      clock,
      random,
      self: () => this.roster.self,
      stun: () => stunUrls(this.#deps.stun()),
      send: (to, signal) => sender.send(to, signal),
      onUp: (peer, path) => {
        this.roster.get(peer)?.peer.useDirect(path)
        this.#deps.handleInput({ kind: 'path', peer, isDirect: true })
        // The peer may have held its answers for this path. They come now, so it must not time out before.
        this.#deps.handleInput({ kind: 'partial-message', peer })
        this.#deps.onDirect(peer)
        this.#deps.onChange()
      },
      onDown: (peer) => {
        const member = this.roster.get(peer)
        member?.peer.useRelay()
        this.#deps.handleInput({ kind: 'path', peer, isDirect: false })
        if (member) this.#checkReachable(member)
        this.#deps.onChange()
      },
      // While a path is only down, partial messages may still complete.
      onEnd: (peer) => this.roster.get(peer)?.direct.clear(),
      onSegment: (peer, segment) => this.#handleSegment(peer, segment, true),
      onQuiet: () => this.#deps.onQuiet(),
      onMisbehaviour: (peer) => this.#banMisbehaving(peer),
    })
  }

  #banMisbehaving(peer: PeerId): void {
    if (this.ban(peer) !== null) this.#deps.onBadSignal()
  }
}

/** Whether the number of a message is too far from the last one for messages that overtook each other. */
function hasRestarted(last: number | null, id: number): boolean {
  if (last === null) return false
  const ahead = (id - last + 2 ** 32) % 2 ** 32
  return ahead >= REORDERED_MESSAGES_MAX && ahead <= 2 ** 32 - REORDERED_MESSAGES_MAX
}

function stunUrls(stun: StunServer | null): string[] {
  if (stun === null) return []
  const { port, secondPort } = stun
  const host = stun.host ?? globalThis.location?.hostname
  return (secondPort === null ? [port] : [port, secondPort]).map((each) => `stun:${host}:${each}`)
}

function assemblyBytesMax(pageBytesMax: number): number {
  return Math.min(ASSEMBLY_BYTES_MAX, ASSEMBLY_BYTES_BASE + ASSEMBLY_PAGES_MAX * pageBytesMax)
}
