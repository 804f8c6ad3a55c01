import type { PeerId } from '../bitswap/index.ts'
import type { Have, PeerKind } from './api.ts'
import type { Millis } from './clock.ts'
import type { FirstRequest } from './first-request.ts'
import { MessageAssembler, type AssemblyBudget } from './message-assembler.ts'
import { PeerInbox } from './peer-inbox.ts'
import { RecentSet } from '../bitswap/index.ts'
import { DualPathPeer, type DualPathPeerOptions } from './dual-path-peer.ts'

/** Peers of one page that this tab exchanges messages with. When the limit is reached, further peers are not added. */
const MEMBERS_MAX = 64
/** Banned peers that are remembered. When the limit is reached, the one banned first is forgotten. */
const BANNED_MAX = 256
/** Messages of a peer that are remembered as read. A peer never has more in flight. */
const READ_REMEMBERED = 512

export interface Member {
  readonly peer: DualPathPeer
  /** The part of the page that the peer has, as the server reported. */
  have: Have
  /** Tab or node. `tab` until the server has said it. */
  kind: PeerKind
  /** Assemblers of messages from the relay and from the direct connection. A message arrives whole on one of them. */
  readonly relayed: MessageAssembler
  readonly direct: MessageAssembler
  /** Messages that were read. One may arrive again: on the other path when a path breaks, or relayed twice when the server's reply was late. */
  readonly read: RecentSet<number>
  readonly inbox: PeerInbox
  /** The number of the peer's message that was read last. */
  lastRead: number | null
  /** Messages with blocks that were sent before the exchange connected the peer. */
  blockMessagesBefore: number
  /** How many messages with blocks since then the peer has read, as the exchange was told. */
  acknowledgedReported: number
  /** When the peer last sent anything. */
  heardAt: Millis
  /** When the exchange last got `partial-message` for the direct connection. */
  progressReportedAt: Millis
}

export interface PeerRosterOptions extends DualPathPeerOptions {
  /** Returns numbers in [0, 1). */
  readonly random: () => number
}

/** The peers of a page, and the peers that are banned. */
export class PeerRoster {
  /** The id of this tab, which no other peer has. */
  self: PeerId | null = null
  /** The request that a peer got with the join of this tab. */
  first: { readonly peer: PeerId; readonly request: FirstRequest } | null = null
  readonly #budget: AssemblyBudget
  readonly #options: PeerRosterOptions
  readonly #members = new Map<PeerId, Member>()
  readonly #banned = new RecentSet<PeerId>(BANNED_MAX)

  constructor(budget: AssemblyBudget, options: PeerRosterOptions) {
    this.#budget = budget
    this.#options = options
  }

  /** The member with this id, new or existing. `null` if the peer is banned or is this tab, or if there is no room. */
  admit(id: PeerId, have: Have = 'none', kind: PeerKind = 'tab'): Member | null {
    const before = this.#members.get(id)
    if (before !== undefined) return before
    if (id === this.self || this.#banned.has(id) || this.#members.size >= MEMBERS_MAX) return null
    const first = this.first?.peer === id ? this.first.request : null
    this.first = first === null ? this.first : null
    const member: Member = {
      peer: new DualPathPeer(id, this.#options, first ?? Math.floor(this.#options.random() * 2 ** 32)),
      have,
      kind,
      relayed: new MessageAssembler(this.#budget),
      direct: new MessageAssembler(this.#budget),
      read: new RecentSet<number>(READ_REMEMBERED),
      inbox: new PeerInbox(),
      lastRead: null,
      blockMessagesBefore: 0,
      acknowledgedReported: 0,
      heardAt: -Infinity,
      progressReportedAt: -Infinity,
    }
    this.#members.set(id, member)
    return member
  }

  get(id: PeerId): Member | null {
    return this.#members.get(id) ?? null
  }

  /** The members now. */
  ids(): PeerId[] {
    return [...this.#members.keys()]
  }

  isMember(member: Member): boolean {
    return this.#members.get(member.peer.id) === member
  }

  remove(id: PeerId): Member | null {
    const member = this.get(id)
    member?.relayed.clear()
    member?.direct.clear()
    this.#members.delete(id)
    return member
  }

  ban(id: PeerId): Member | null {
    this.#banned.add(id)
    return this.remove(id)
  }

  /** Removes all members. Returns them. */
  clear(): Member[] {
    return this.ids().flatMap((id) => this.remove(id) ?? [])
  }
}
