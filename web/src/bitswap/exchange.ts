import type { Cid } from '../content/index.ts'
import { handleTick, requestBlocks, setUrgent } from './requester/rarest-first.ts'
import { Requester } from './requester/requester.ts'
import { Ledger } from './ledger/ledger.ts'
import { defaultExchangeLimits, type ExchangeLimits } from './limits.ts'
import { messageBytes, wantBytes, type Message, type WantEntry } from './message.ts'
import type { Input, Misbehaviour, Output } from './inputs-outputs.ts'
import type { Block, ReceivedMessage } from './message.ts'
import { PeerMap, sortedPeers, type PeerId } from './peer.ts'
import { SendBuffer } from './send-buffer.ts'
import { earliest, SECOND, since, type Nanos } from './time.ts'
import { emptyTotals, type PeerTotals, type Totals } from './totals.ts'
import { Uplink } from './uplink.ts'

/** A peer that waits for blocks gets a message after this time without one, so that it does not time out. */
const REMINDED_AFTER: Nanos = 60 * SECOND

/**
 * The Bitswap exchange of one page: requests the blocks that the page wants, and sends blocks that peers want. It has
 * no network, clock, randomness or store of its own. A driver passes it inputs and carries out its outputs. It behaves
 * like the Rust core's `Exchange` with one session whose peers all speak Bitswap 1.2.
 *
 * After each input, drain all outputs. Send `tick` at `nextWake`.
 */
export class Exchange {
  readonly totals: Totals = emptyTotals()
  readonly #batchingDelay: Nanos
  readonly #requester: Requester
  readonly #ledger: Ledger
  readonly #buffers = new PeerMap<SendBuffer>()
  readonly #uplink: Uplink
  /** Peers with messages that can wait, and until when. */
  readonly #delayed = new Map<PeerId, Nanos>()
  /** When waiting peers were last checked for such a message. */
  #remindedAt: Nanos = 0
  #now: Nanos = 0
  /** Whether the outputs include everything that follows from the inputs. */
  #isSettled = true
  #outputs: Output[] = []

  /**
   * `seed` decides between equal choices. Peers of one page need different seeds, or all would request the same blocks
   * first.
   */
  constructor(seed: bigint, limits: ExchangeLimits = defaultExchangeLimits) {
    this.#batchingDelay = limits.batchingDelay
    this.#requester = new Requester(limits, seed, this.totals)
    this.#ledger = new Ledger(limits, this.totals, seed)
    this.#uplink = new Uplink(limits.readingBytesMax)
  }

  /** Handles one input. */
  handle(now: Nanos, input: Input): void {
    // The most frequent input. It usually has no effect.
    if (input.kind === 'partial-message' && !this.#requester.noteReceived(now, input.peer, 'part')) return
    this.#now = now
    this.#isSettled = false
    switch (input.kind) {
      case 'connected':
        this.#forget(input.peer)
        this.#buffers.set(input.peer, new SendBuffer(now))
        this.#requester.handleConnected(now, input.peer, input.isProvider)
        this.#ledger.handleConnected(input.peer)
        return
      case 'disconnected':
        this.#forget(input.peer)
        return
      case 'message':
        this.#handleReceived(now, input.peer, input)
        return
      case 'partial-message':
        return
      case 'writable':
        this.#handleWritable(now, input.peer, input.roomBytes)
        return
      case 'stored':
        this.#ledger.handleHave(input.cid, input.length)
        return
      case 'lookup-result':
        this.#ledger.handleFound(input.cid, input.length)
        return
      case 'read':
        this.#ledger.handleRead(input.peer, input.cid, input.block)
        return
      case 'want':
        for (const want of input.wants) this.#requester.addWant(now, want)
        return
      case 'cancel-wants':
        for (const cid of input.cids) this.#requester.cancelWant(cid)
        return
      case 'set-urgent':
        setUrgent(this.#requester, now, input.cids)
        return
      case 'providers':
        this.#requester.handleProviders(now, input.peers)
        return
      case 'tick':
        for (const peer of this.#requester.stalledPeers(now)) this.#drop(peer, 'stalled')
        handleTick(this.#requester, now)
        this.#resetStuckUplink(now)
        return
    }
  }

  /** The next output. `null` if there is none. */
  pollOutput(): Output | null {
    if (this.#outputs.length === 0 && !this.#isSettled) {
      this.#isSettled = true
      this.#settle()
    }
    return this.#outputs.shift() ?? null
  }

  /** When to send `tick`. `null` while nothing is due. */
  nextWake(): Nanos | null {
    return earliest(this.#requester.nextWake(), this.#uplink.nextWake(), this.#ledger.heldUntil, ...this.#delayed.values())
  }

  has(peer: PeerId): boolean {
    return this.#buffers.has(peer)
  }

  /** The traffic with a peer. `null` if it is not connected. */
  peer(peer: PeerId): PeerTotals | null {
    const buffer = this.#buffers.get(peer)
    const state = this.#requester.peers.get(peer)
    if (buffer === undefined || state === undefined) return null
    return {
      blocksIn: state.usefulBlocks,
      bytesIn: state.bytesIn,
      blocksOut: buffer.blocksOut,
      bytesOut: buffer.bytesOut,
      requestedBlocks: state.requested.size,
      wants: this.#ledger.wantsOf(peer),
      windowBytes: state.throughput.windowBytes,
      bytesPerSecond: state.throughput.rate,
      latency: state.throughput.minLatency,
    }
  }

  peers(): PeerId[] {
    return [...this.#buffers.keys()]
  }

  /** Whether any peer is known to have a wanted block. */
  get isAnythingAvailable(): boolean {
    return this.#requester.isAnythingAvailable
  }

  #handleReceived(now: Nanos, peer: PeerId, { message, blocks, skipped, skippedBlocks }: ReceivedMessage): void {
    if (!this.#buffers.has(peer)) return
    this.totals.messagesIn++
    this.totals.skippedEntries += skipped
    this.#requester.noteReceived(now, peer, blocks.length > 0 ? 'blocks' : 'other')
    let unsolicited = skippedBlocks
    this.totals.unsolicitedBlocks += unsolicited
    for (const block of blocks) if (this.#handleBlock(now, peer, block)) unsolicited++
    for (const { cid, have } of message.presences) this.#requester.handlePresence(now, peer, cid, have)
    const reason =
      (unsolicited > 0 ? this.#requester.noteUnsolicitedBlocks(peer, unsolicited) : null) ?? this.#requester.misbehaviourOf(peer)
    if (reason === null) this.#handleWants(peer, message)
    else this.#drop(peer, reason)
  }

  /** Returns whether the block is unsolicited: it was never wanted. */
  #handleBlock(now: Nanos, peer: PeerId, block: Block): boolean {
    const bytes = block.data.length
    switch (this.#requester.handleBlock(now, peer, block.cid, bytes)) {
      case 'wanted':
        this.totals.blocksIn++
        this.totals.bytesIn += bytes
        this.#outputs.push({ kind: 'block-received', block, from: peer })
        return false
      case 'duplicate':
        this.totals.duplicateBlocks++
        this.totals.duplicateBytes += bytes
        return false
      case 'unasked':
        this.totals.unsolicitedBlocks++
        this.totals.unsolicitedBytes += bytes
        return true
    }
  }

  #resetStuckUplink(now: Nanos): void {
    if (!this.#uplink.isStuck(now)) return
    for (const buffer of this.#buffers.values()) buffer.movingBytes = 0
    this.#uplink.resetInFlight()
  }

  #handleWritable(now: Nanos, peer: PeerId, roomBytes: number): void {
    const buffer = this.#buffers.get(peer)
    if (buffer === undefined) return
    const hadNone = buffer.roomBytes === 0
    const left = buffer.setRoom(roomBytes)
    if (left > 0) this.#uplink.noteLeft(now, left)
    if (hadNone) this.#requester.peersToNotify.add(peer)
  }

  /** A peer sent wants. */
  #handleWants(peer: PeerId, { full, wants }: Message): void {
    const buffer = this.#buffers.get(peer)
    const isOnItsWay = ({ cid, cancel, type }: WantEntry) => !cancel && type === 'block' && buffer?.holds(cid) === true
    const lookups = this.#ledger.handleWants(
      peer,
      full,
      wants.filter((want) => !isOnItsWay(want)),
    )
    for (const cid of lookups) this.#outputs.push({ kind: 'lookup', cid })
  }

  #forget(peer: PeerId): void {
    const buffer = this.#buffers.get(peer)
    if (buffer === undefined) return
    this.#buffers.delete(peer)
    this.#delayed.delete(peer)
    if (buffer.movingBytes > 0) this.#uplink.noteLeft(this.#now, buffer.movingBytes)
    this.#requester.handleDisconnected(peer)
    this.#ledger.handleDisconnected(peer)
  }

  #drop(peer: PeerId, reason: Misbehaviour): void {
    this.#forget(peer)
    this.totals.droppedPeers++
    this.#outputs.push({ kind: 'drop-peer', peer, reason })
  }

  /**
   * Computes what follows from all inputs. Runs only when outputs are drained, so that one message carries what several
   * inputs cause.
   */
  #settle(): void {
    requestBlocks(this.#requester, this.#now)
    const missed = this.#requester.startDueSearch(this.#now)
    if (missed !== null) this.#outputs.push({ kind: 'find-providers', cid: missed })
    const peers = new Set([...this.#requester.peersToNotify, ...this.#ledger.peersToNotify])
    this.#requester.peersToNotify.clear()
    this.#ledger.peersToNotify.clear()
    for (const [peer, until] of this.#delayed) {
      if (until > this.#now) continue
      this.#delayed.delete(peer)
      peers.add(peer)
    }
    const { blocksOut } = this.totals
    for (const peer of sortedPeers(peers)) this.#sendPending(peer)
    if (this.totals.blocksOut > blocksOut) this.#remind()
    this.#startReads()
  }

  /**
   * Sends a message to peers that have waited long for their blocks, so that they do not time out. Runs only while
   * blocks are sent to other peers.
   */
  #remind(): void {
    if (since(this.#now, this.#remindedAt) < REMINDED_AFTER / 4) return
    this.#remindedAt = this.#now
    for (const { peer, pendingBytes } of this.#ledger.waitingPeers()) {
      const buffer = this.#buffers.get(peer)
      if (buffer === undefined || buffer.roomBytes === 0 || since(this.#now, buffer.sentAt) < REMINDED_AFTER) continue
      this.#send(peer, buffer, { full: false, wants: [], presences: [], pendingBytes }, [])
    }
  }

  /** Sends a peer its pending messages, unless they can wait or the send buffer is full. */
  #sendPending(peer: PeerId): void {
    const buffer = this.#buffers.get(peer)
    if (buffer === undefined) return
    const isUrgent = this.#requester.isUrgent(peer) || this.#ledger.isUrgent(peer)
    if (buffer.quietUntil > this.#now && !isUrgent) {
      this.#delayed.set(peer, buffer.quietUntil)
      return
    }
    while (buffer.roomBytes > 0) {
      const request = this.#requester.takeWants(peer, buffer.roomBytes)
      const wantsBytes = request.wants.reduce((sum, want) => sum + wantBytes(want), 0)
      const { presences, blocks, pendingBytes, isMore } = this.#ledger.takeAnswers(peer, Math.max(0, buffer.roomBytes - wantsBytes))
      if (request.wants.length + presences.length + blocks.length === 0) return
      this.#delayed.delete(peer)
      buffer.quietUntil = this.#now + this.#batchingDelay
      this.#send(peer, buffer, { full: false, wants: request.wants, presences, pendingBytes }, blocks)
      if (!request.isMore && !isMore) return
    }
  }

  #send(peer: PeerId, buffer: SendBuffer, message: Message, blocks: readonly Block[]): void {
    buffer.sentAt = this.#now
    const bytes = messageBytes(message, blocks)
    buffer.roomBytes = Math.max(0, buffer.roomBytes - bytes)
    if (blocks.length > 0) {
      buffer.add(
        bytes,
        blocks.map(({ cid }: { cid: Cid }) => cid),
      )
      this.#uplink.noteSent(this.#now, bytes)
    }
    const blockBytes = blocks.reduce((sum, { data }) => sum + data.length, 0)
    buffer.blocksOut += blocks.length
    buffer.bytesOut += blockBytes
    this.totals.messagesOut++
    this.totals.blocksOut += blocks.length
    this.totals.bytesOut += blockBytes
    this.#outputs.push({ kind: 'send', peer, message, blocks })
  }

  #startReads(): void {
    this.#ledger.heldUntil = null
    const room = (peer: PeerId) => this.#buffers.get(peer)?.roomBytes ?? 0
    while (this.#ledger.hasReadyPeers) {
      const roomBytes = this.#uplink.roomBytes(this.#ledger.readingBytes)
      const bytesMax = Math.min(roomBytes, this.#uplink.batchBytesMax)
      const isSource = this.#requester.wants.size === 0
      const next = this.#ledger.startNextRead(this.#now, bytesMax, room, isSource)
      if (next === null) return
      for (const cid of next.cids) this.#outputs.push({ kind: 'read', peer: next.peer, cid })
    }
  }
}
