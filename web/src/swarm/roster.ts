import type { PeerId } from '../bitswap/index.ts'
import type { Have, Millis, PeerKind } from './api.ts'
import { Assembler, type AssemblyBudget } from './assembler.ts'
import { Inbox } from './inbox.ts'
import { RecentNumbers } from './recent-numbers.ts'
import type { RelayPeerOptions } from './relay-peer.ts'
import { TwoWayPeer } from './two-way-peer.ts'

/** Peers of one page that we talk to; one more is not let in until another leaves. */
const MEMBERS_MAX = 64
/** Peers remembered as no good; beyond it the one banned first may try again. */
const BANNED_MAX = 256
/** Messages of a peer remembered as read; more than one may have on its way. */
const READ_REMEMBERED = 256

export interface Member {
  readonly peer: TwoWayPeer
  /** How much of the page it holds, by the server's word. */
  have: Have
  /** What it says it is; of whom the server has not told yet, a tab. */
  kind: PeerKind
  /** What came by relay, and what came directly: a message comes whole on one of the ways. */
  readonly relayed: Assembler
  readonly direct: Assembler
  /** What was read of either, since a message may come again on the other when a way breaks. */
  readonly readRelayed: RecentNumbers
  readonly readDirect: RecentNumbers
  readonly inbox: Inbox
  /** The number of its message that was read last. */
  lastRead: number | null
  /** When the exchange last heard that a part came directly. */
  progressToldAt: Millis
}

export interface RosterOptions extends RelayPeerOptions {
  /** Numbers in [0, 1). */
  readonly random: () => number
}

/** Who is here with us on a page, and who is not to come back. */
export class Roster {
  /** Our own name, which no other peer has. */
  self: PeerId | null = null
  readonly #budget: AssemblyBudget
  readonly #options: RosterOptions
  readonly #members = new Map<PeerId, Member>()
  readonly #banned = new Set<PeerId>()

  constructor(budget: AssemblyBudget, options: RosterOptions) {
    this.#budget = budget
    this.#options = options
  }

  /** The member of that name, new or old; `null` when it is banned, is us, or there is no room. */
  admit(id: PeerId, have: Have = 'none', kind: PeerKind = 'tab'): Member | null {
    const before = this.#members.get(id)
    if (before !== undefined) return before
    if (id === this.self || this.#banned.has(id) || this.#members.size >= MEMBERS_MAX) return null
    const member: Member = {
      peer: new TwoWayPeer(id, this.#options, Math.floor(this.#options.random() * 2 ** 32)),
      have,
      kind,
      relayed: new Assembler(this.#budget),
      direct: new Assembler(this.#budget),
      readRelayed: new RecentNumbers(READ_REMEMBERED),
      readDirect: new RecentNumbers(READ_REMEMBERED),
      inbox: new Inbox(),
      lastRead: null,
      progressToldAt: -Infinity,
    }
    this.#members.set(id, member)
    return member
  }

  get(id: PeerId): Member | null {
    return this.#members.get(id) ?? null
  }

  isMember(member: Member): boolean {
    return this.#members.get(member.peer.id) === member
  }

  remove(id: PeerId): Member | null {
    const member = this.#members.get(id) ?? null
    member?.relayed.clear()
    member?.direct.clear()
    this.#members.delete(id)
    return member
  }

  ban(id: PeerId): Member | null {
    const [first] = this.#banned
    if (this.#banned.size >= BANNED_MAX && first !== undefined) this.#banned.delete(first)
    this.#banned.add(id)
    return this.remove(id)
  }

  /** Sends everyone away; returns who was here. */
  clear(): Member[] {
    return [...this.#members.keys()].flatMap((id) => this.remove(id) ?? [])
  }
}
