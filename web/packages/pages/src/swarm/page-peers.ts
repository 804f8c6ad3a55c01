import { requestsBlocks, type Block, type Input, type Message, type Misbehaviour, type PeerId, type PeerTotals } from '../bitswap/index.ts'
import type { Cid } from '../content/index.ts'
import { swarm } from '../messages/swarm.ts'
import type { BlockMap, Counts, Have, PageProblem, PeerStatus } from './api.ts'
import { BlockAvailability } from './block-availability.ts'
import type { Millis } from './clock.ts'
import { mapBlocks } from './block-map.ts'
import type { FirstRequest } from './first-request.ts'
import type { Member, PeerRoster } from './peer-roster.ts'
import { PeerSet, type PeerSetDeps } from './peer-set.ts'
import type { PeerInfo } from './server-messages.ts'
import { SilentPeers } from './silent-peers.ts'

/** The reason why a peer was dropped. `malformed`: it sent bytes that cannot be decoded. */
type DropReason = Misbehaviour | 'malformed'

export interface PagePeersDeps extends Omit<PeerSetDeps, 'handleInput' | 'onMember' | 'onMalformed' | 'onBadSignal' | 'onSilent'> {
  readonly isPartOfPage: (cid: Cid) => boolean
  /** Passes an input to the exchange. */
  readonly handleInput: (input: Input) => void
  /** A new peer is here. */
  readonly onConnected: (member: Member) => void
  /** A peer was dropped. */
  readonly onProblem: (problem: PageProblem) => void
}

/** The peers of an open page: how they are reached, what each is known to have, and which were dropped. */
export class PagePeers {
  /** Peers dropped because they misbehaved, since the page was opened. */
  droppedCount = 0
  readonly #deps: PagePeersDeps
  readonly #set: PeerSet
  readonly #availability: BlockAvailability
  readonly #silent: SilentPeers
  /** The server's counts, as they were last. */
  #counts: Counts | null = null

  constructor(deps: PagePeersDeps) {
    this.#deps = deps
    this.#availability = new BlockAvailability(deps.isPartOfPage)
    this.#silent = new SilentPeers(deps.clock, deps.onChange)
    this.#set = new PeerSet({
      ...deps,
      handleInput: (input) => {
        this.#availability.handleInput(input)
        deps.handleInput(input)
      },
      onSilent: (member) => this.#silent.add(member.peer.id, this.#haveOf(member)),
      onMember: (member, isNew) => {
        this.#silent.delete(member.peer.id)
        this.#availability.setHave(member.peer.id, member.have)
        if (isNew) deps.onConnected(member)
      },
      onMalformed: (peer) => this.drop(peer, 'malformed'),
      onBadSignal: () => this.#noteDropped('invalidSignals'),
    })
  }

  get roster(): PeerRoster {
    return this.#set.roster
  }

  /** The server named this peer. */
  add(peer: PeerInfo): void {
    this.#set.add(peer)
  }

  /** Replaces all peers after a join: the server gives every peer a new id. `first` went with the join. */
  replaceAll(self: PeerId | null, peers: readonly PeerInfo[], first: FirstRequest | null): void {
    // The server may not know yet that the earlier connection of this tab is gone, and then names it as a peer.
    const former = this.roster.self
    if (former !== null && former !== self) this.roster.ban(former)
    this.roster.self = self
    this.removeAll()
    const holder = peers.find(({ have }) => have === 'all')
    this.roster.first = first === null || holder === undefined ? null : { peer: holder.peer, request: first }
    for (const peer of peers) this.#set.add(peer)
  }

  remove(peer: PeerId): void {
    this.#silent.noteLeft(peer)
    this.#set.remove(peer)
  }

  removeAll(): void {
    this.#silent.clear()
    this.#set.removeAll()
  }

  /** The server's counts, without peers that this tab knows to be gone. */
  correct(counts: Counts): Counts {
    return this.#silent.correct(counts)
  }

  /** When the last holder fell silent that these counts have. `null` if another holder is there, or none was. */
  holdersLostAt(counts: Counts): Millis | null {
    return counts.holders > 0 && this.correct(counts).holders === 0 ? this.#silent.holderLostAt : null
  }

  /** Disconnects a peer that misbehaves, and does not let it come back. */
  drop(peer: PeerId, reason: DropReason): void {
    if (this.#set.ban(peer) !== null) this.#noteDropped(reason)
  }

  /** A message is queued for this peer. */
  noteSending(member: Member, message: Message): void {
    // Before it was sent: over the relay, that takes as long as it takes to set up a direct connection.
    const isRequest = requestsBlocks(message)
    if (isRequest) this.#set.connectToRequest(member)
    this.#set.connectIfBusy(member)
    if (isRequest) this.#set.expectHeld(member)
  }

  /** These blocks were sent to this peer. */
  noteSent({ peer }: Member, blocks: readonly Block[]): void {
    this.#availability.noteSent(
      peer.id,
      blocks.map(({ cid }) => cid),
    )
  }

  /** The server's counts, which may have changed. */
  noteCounts(counts: Counts): void {
    if (counts !== this.#counts) this.#silent.noteCounts()
    this.#counts = counts
    const { watching, holders } = this.correct(counts)
    if (watching > 0 && holders >= watching) this.#availability.noteAllComplete(watching)
  }

  handleRelay(frame: ArrayBuffer): void {
    this.#set.handleRelay(frame)
  }

  handleSignal(frame: ArrayBuffer): void {
    this.#set.handleSignal(frame)
  }

  /** `totals`: what the exchange knows of the peer. `null` when either side does not know it. */
  status(id: PeerId, totals: PeerTotals | null, blocksTotal: number | null): PeerStatus | null {
    const member = this.roster.get(id)
    if (member === null || totals === null) return null
    return {
      id,
      kind: member.kind,
      have: this.#haveOf(member),
      path: member.peer.path,
      direct: this.#set.directStatus(id),
      blocks: this.#availability.countOf(id, blocksTotal),
      receivedBytes: totals.bytesIn,
      sentBytes: totals.bytesOut,
      bytesPerSecond: totals.bytesPerSecond,
    }
  }

  /** The places of these blocks: in this tab, and at the peers. */
  blockMap({ cids, isHere }: { readonly cids: readonly Cid[]; readonly isHere: (cid: Cid) => boolean }): BlockMap {
    return mapBlocks(cids, isHere, this.#availability, (peer) => this.roster.get(peer)?.kind === 'node')
  }

  close(): void {
    this.#set.close()
  }

  #haveOf(member: Member): Have {
    return this.#availability.haveOf(member.peer.id) ?? member.have
  }

  #noteDropped(reason: DropReason | 'invalidSignals'): void {
    this.droppedCount++
    this.#deps.onProblem({ fatal: false, sentence: swarm(reason) })
  }
}
