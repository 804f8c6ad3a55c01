import type { Cid } from '../content/index.ts'
import { handleTick, requestBlocks, setUrgent } from './rarest-first.ts'
import { Requester } from './requester.ts'
import { Ledger } from './ledger.ts'
import { defaultLimits, type Limits } from './limits.ts'
import { encodedLength, entryLength, type Message, type WantEntry } from './message.ts'
import type { Input, Misbehaviour, Output } from './output.ts'
import type { Block, ReceivedMessage } from './message.ts'
import { PeerMap, sortedPeers, type PeerId } from './peer.ts'
import { SendBuffer } from './send-buffer.ts'
import { earliest, SECOND, since, type Nanos } from './time.ts'
import { emptyTotals, type PeerTotals, type Totals } from './totals.ts'
import { Uplink } from './uplink.ts'

/** A peer that waits for blocks gets a message after this time without one, so that it does not time out. */
const REMINDER_INTERVAL: Nanos = 60 * SECOND

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
  readonly #sendBuffers = new PeerMap<SendBuffer>()
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
  constructor(seed: bigint, limits: Limits = defaultLimits) {
    this.#batchingDelay = limits.batchingDelay
    this.#requester = new Requester(limits, seed, this.totals)
    this.#ledger = new Ledger(limits, this.totals, seed)
    this.#uplink = new Uplink(limits.readingBytesMax)
  }

  /** Handles one input. */
  handle(now: Nanos, input: Input): void {
    // The most frequent input. It usually has no effect.
    if (input.kind === 'partial-message' && !this.#requester.noteReceived(now, input.peer, 'part')) return
    if (input.kind === 'acknowledged') {
      this.#sendBuffers.get(input.peer)?.acknowledge(now, input.messages)
      return
    }
    this.#now = now
    this.#isSettled = false
    switch (input.kind) {
      case 'connected':
        this.#forgetPeer(input.peer)
        this.#sendBuffers.set(input.peer, new SendBuffer(now))
        this.#requester.handleConnected(now, input.peer, input.isProvider)
        this.#ledger.handleConnected(input.peer)
        return
      case 'disconnected':
        this.#forgetPeer(input.peer)
        return
      case 'message':
        this.#handleMessage(now, input.peer, input)
        return
      case 'partial-message':
        return
      case 'path':
        this.#requester.handlePath(input.peer, input.isDirect)
        return
      case 'writable':
        this.#handleWritable(now, input.peer, input.roomBytes)
        return
      case 'stored':
        this.#ledger.handleStored(input.cid, input.length)
        return
      case 'lookup-result':
        this.#ledger.handleLookup(input.cid, input.length)
        return
      case 'read':
        this.#ledger.handleRead(input.peer, input.cid, input.block)
        return
      case 'want':
        for (const want of input.wants) this.#requester.want(now, want)
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
        for (const peer of this.#requester.stalledPeers(now)) this.#dropPeer(peer, 'stalled')
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
    return earliest(this.#requester.nextWake(), this.#uplink.nextWake(), this.#ledger.heldBackUntil, ...this.#delayed.values())
  }

  /** The traffic with a peer. `null` if it is not connected. */
  peer(peer: PeerId): PeerTotals | null {
    const buffer = this.#sendBuffers.get(peer)
    const state = this.#requester.peers.get(peer)
    if (buffer === undefined || state === undefined) return null
    return { bytesIn: state.counts.usefulBytes, bytesOut: buffer.bytesOut, bytesPerSecond: state.delivery.rate }
  }

  peers(): PeerId[] {
    return [...this.#sendBuffers.keys()]
  }

  /** Whether any peer is known to have a wanted block. */
  get isAnythingAvailable(): boolean {
    return this.#requester.isAnythingAvailable
  }

  #handleMessage(now: Nanos, peer: PeerId, { message, blocks, skippedEntries, skippedBlocks }: ReceivedMessage): void {
    if (!this.#sendBuffers.has(peer)) return
    this.totals.messagesIn++
    this.totals.skippedEntries += skippedEntries
    this.#requester.noteReceived(now, peer, blocks.length > 0 ? 'blocks' : 'no-blocks')
    let unsolicited = skippedBlocks
    this.totals.unsolicitedBlocks += unsolicited
    for (const block of blocks) if (this.#handleBlock(now, peer, block)) unsolicited++
    for (const { cid, hasBlock } of message.presences) this.#requester.handlePresence(now, peer, cid, hasBlock)
    const reason = (unsolicited > 0 ? this.#requester.countUnsolicited(peer, unsolicited) : null) ?? this.#requester.misbehaviour(peer)
    if (reason === null) this.#handleWants(peer, message)
    else this.#dropPeer(peer, reason)
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
      case 'unsolicited':
        this.totals.unsolicitedBlocks++
        this.totals.unsolicitedBytes += bytes
        return true
    }
  }

  #resetStuckUplink(now: Nanos): void {
    if (!this.#uplink.isStuck(now)) return
    for (const buffer of this.#sendBuffers.values()) buffer.moving = 0
    this.#uplink.giveUp()
  }

  #handleWritable(now: Nanos, peer: PeerId, roomBytes: number): void {
    const buffer = this.#sendBuffers.get(peer)
    if (buffer === undefined) return
    const hadNone = buffer.room === 0
    const left = buffer.setRoom(now, roomBytes)
    if (left > 0) this.#uplink.handleLeft(now, left)
    if (hadNone) this.#requester.peersToUpdate.add(peer)
  }

  /** A peer sent wants. */
  #handleWants(peer: PeerId, { full, wants }: Message): void {
    const buffer = this.#sendBuffers.get(peer)
    const isOnItsWay = ({ cid, cancel, kind }: WantEntry) => !cancel && kind === 'block' && buffer?.hasBlock(this.#now, cid) === true
    const lookups = this.#ledger.handleWants(
      peer,
      full,
      wants.filter((want) => !isOnItsWay(want)),
    )
    for (const cid of lookups) this.#outputs.push({ kind: 'lookup', cid })
  }

  #forgetPeer(peer: PeerId): void {
    const buffer = this.#sendBuffers.get(peer)
    if (buffer === undefined) return
    this.#sendBuffers.delete(peer)
    this.#delayed.delete(peer)
    if (buffer.moving > 0) this.#uplink.handleLeft(this.#now, buffer.moving)
    this.#requester.handleDisconnected(peer)
    this.#ledger.handleDisconnected(peer)
  }

  #dropPeer(peer: PeerId, reason: Misbehaviour): void {
    this.#forgetPeer(peer)
    this.totals.droppedPeers++
    this.#outputs.push({ kind: 'drop-peer', peer, reason })
  }

  /**
   * Computes what follows from all inputs. Runs only when outputs are drained, so that one message carries what several
   * inputs cause.
   */
  #settle(): void {
    requestBlocks(this.#requester, this.#now)
    const lacked = this.#requester.beginSearch(this.#now)
    if (lacked !== null) this.#outputs.push({ kind: 'find-providers', cid: lacked })
    const peers = new Set([...this.#requester.peersToUpdate, ...this.#ledger.peersToUpdate])
    this.#requester.peersToUpdate.clear()
    this.#ledger.peersToUpdate.clear()
    for (const [peer, until] of this.#delayed) {
      if (until > this.#now) continue
      this.#delayed.delete(peer)
      peers.add(peer)
    }
    const { blocksOut } = this.totals
    for (const peer of sortedPeers(peers)) this.#sendPending(peer)
    if (this.totals.blocksOut > blocksOut) this.#sendReminders()
    this.#readNextBlocks()
  }

  /**
   * Sends a message to peers that have waited long for their blocks, so that they do not time out. Runs only while
   * blocks are sent to other peers.
   */
  #sendReminders(): void {
    if (since(this.#now, this.#remindedAt) < REMINDER_INTERVAL / 4) return
    this.#remindedAt = this.#now
    for (const { peer, pendingBytes } of this.#ledger.waitingPeers()) {
      const buffer = this.#sendBuffers.get(peer)
      if (buffer === undefined || buffer.room === 0 || since(this.#now, buffer.messageSentAt) < REMINDER_INTERVAL) continue
      this.#send(peer, buffer, { full: false, wants: [], presences: [], pendingBytes }, [])
    }
  }

  /** Sends a peer its pending messages, unless they can wait or the send buffer is full. */
  #sendPending(peer: PeerId): void {
    const buffer = this.#sendBuffers.get(peer)
    if (buffer === undefined) return
    const isUrgent = this.#requester.hasUrgent(peer) || this.#ledger.hasUrgent(peer)
    if (buffer.delayedUntil > this.#now && !isUrgent) {
      this.#delayed.set(peer, buffer.delayedUntil)
      return
    }
    while (buffer.room > 0) {
      const request = this.#requester.takeWants(peer, buffer.room)
      const wantsBytes = request.wants.reduce((sum, want) => sum + entryLength(want), 0)
      const { presences, blocks, pendingBytes, hasMore } = this.#ledger.takeAnswers(peer, Math.max(0, buffer.room - wantsBytes))
      if (request.wants.length + presences.length + blocks.length === 0) return
      this.#delayed.delete(peer)
      buffer.delayedUntil = this.#now + this.#batchingDelay
      this.#send(peer, buffer, { full: false, wants: request.wants, presences, pendingBytes }, blocks)
      if (!request.hasMore && !hasMore) return
    }
  }

  #send(peer: PeerId, buffer: SendBuffer, message: Message, blocks: readonly Block[]): void {
    buffer.messageSentAt = this.#now
    const bytes = encodedLength(message, blocks)
    buffer.room = Math.max(0, buffer.room - bytes)
    if (blocks.length > 0) {
      buffer.push(
        this.#now,
        bytes,
        blocks.map(({ cid }: { cid: Cid }) => cid),
      )
      this.#uplink.handleSent(this.#now, bytes)
    }
    const blockBytes = blocks.reduce((sum, { data }) => sum + data.length, 0)
    buffer.bytesOut += blockBytes
    this.totals.messagesOut++
    this.totals.blocksOut += blocks.length
    this.totals.bytesOut += blockBytes
    this.#outputs.push({ kind: 'send', peer, message, blocks })
  }

  #readNextBlocks(): void {
    this.#ledger.heldBackUntil = null
    const room = (peer: PeerId) => this.#sendBuffers.get(peer)?.room ?? 0
    while (this.#ledger.hasReadyPeer) {
      const roomBytes = this.#uplink.takeRoom(this.#ledger.readingBytes)
      const bytesMax = Math.min(roomBytes, this.#uplink.batchBytesMax)
      const isSource = this.#requester.wants.size === 0
      const next = this.#ledger.readNext(this.#now, bytesMax, room, isSource)
      if (next === null) return
      for (const cid of next.cids) this.#outputs.push({ kind: 'read', peer: next.peer, cid })
    }
  }
}
