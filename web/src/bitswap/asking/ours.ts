/** Whom to ask, and when to ask another. */
import { sorted, type PeerId } from '../peer.ts'
import { MILLI, SECOND, since, timeOf, type Nanos } from '../time.ts'
import { NEWCOMERS_ASKED_MAX, type Asking } from './asking.ts'
import { ones, onesFrom } from './bits.ts'
import { Budget } from './budget.ts'
import type { Ask, View } from './view.ts'
import type { Wants } from './wants.ts'

/** Open wants that are compared with one another before one is chosen. Beyond, those behind a random place are. */
const COMPARED_MAX = 4096
/** How often the tail looks whether somebody idle could help. */
const TAIL_INTERVAL: Nanos = 100 * MILLI
/** Shortest time without a piece of a block after which a peer is held to serve others. */
const STANDSTILL_MIN: Nanos = 200 * MILLI
/** How often an idle peer looks what it could take over. */
const LOOK_INTERVAL: Nanos = 50 * MILLI
/**
 * Who has everything and gives more than so many times what each of the others gives is spared only where all of them
 * together give so many times as much as it.
 */
const FAST = 2
/** Silences in a row after which whoever alone has a block is asked for it once more. */
const SILENCES_BEFORE_AGAIN = 3
/** Pieces of blocks that each other peer may send before one that sends nothing is held to be silent. */
const PIECES_PER_TURN = 4
/** How often a peer's silence is put down to our own link. */
const EXCUSED_MAX = 16
/** Longest time that a silent peer is not asked again. */
const SILENT_MAX: Nanos = 30 * SECOND
/** Shortest time for which a peer must have made us wait before it is asked for something else instead. */
const WAIT_MIN: Nanos = 100 * MILLI

export function fill(asking: Asking, now: Nanos): void {
  if (asking.wants.size === 0) {
    asking.hungry.clear()
    asking.newcomers.clear()
    asking.searches.rest()
  }
  const spread = asking.spread
  asking.spread = []
  for (const at of spread) askForWhatItAloneHas(asking, now, at)
  // Several rounds of one block each, so that nobody takes all that is left; those first from whom it will come the
  // soonest.
  const hungry: PeerId[] = []
  if (asking.askedBytes < asking.limits.askedBytesMax) {
    hungry.push(...asking.hungry)
    asking.hungry.clear()
  }
  if (asking.newcomersAsked < NEWCOMERS_ASKED_MAX) {
    hungry.push(...asking.newcomers)
    asking.newcomers.clear()
  }
  let peers: { readonly isIdler: boolean; readonly takes: Nanos; readonly throw: bigint; readonly peer: PeerId }[] = []
  for (const peer of sorted(new Set(hungry))) {
    const thrown = asking.dice.throw()
    const view = asking.views.get(peer)
    if (view === undefined) continue
    // By how long answers take of late, too: others ask a busy one as well.
    const takes = view.takes(asking.limits.blockBytesGuess) + (view.pace.usual ?? 0)
    peers.push({ isIdler: view.isIdler, takes, throw: thrown, peer })
  }
  peers.sort((a, b) => Number(a.isIdler) - Number(b.isIdler) || a.takes - b.takes || (a.throw < b.throw ? -1 : 1))
  if (peers.length > 0) {
    const budget = new Budget(asking)
    while (peers.length > 0) peers = peers.filter(({ peer }) => askForOne(asking, now, peer, budget))
  }
  const isTail = asking.wants.openSize === 0 && asking.wants.size > 0
  if (!isTail) asking.tailAt = null
  else asking.tailAt ??= now + TAIL_INTERVAL
}

/** Asks a peer for one block more; whether there was one. */
function askForOne(asking: Asking, now: Nanos, peer: PeerId, budget: Budget): boolean {
  const view = asking.views.get(peer)
  if (view === undefined) return false
  const isFull = view.isNewcomer ? asking.newcomersAsked >= NEWCOMERS_ASKED_MAX : budget.isSpent(view)
  if (isFull) {
    asking.isHungry(peer)
    return false
  }
  if (!view.hasRoom || view.silentUntil !== null) return false
  const thrown = asking.dice.throw()
  const known = choose(asking.wants, thrown, (at) => view.has.half(at))
  const mayHope = view.hope === 'full' || (view.hope === 'one' && view.asked.size === 0)
  const chosen = known ?? (mayHope ? choose(asking.wants, thrown, (at) => ~view.lacks.half(at)) : null)
  if (chosen === null) return view.asked.size === 0 && takeOver(asking, now, peer)
  if (isTooSlowFor(asking, view, chosen)) return false
  if (budget.isForOthers(now, view, chosen) || isLeftToOthers(asking, view, chosen)) {
    asking.isHungry(peer)
    return false
  }
  budget.ask(view, asking.bytesOf(chosen))
  if (known === null && view.hope === 'one') view.hope = 'none'
  asking.ask(now, chosen, peer)
  return true
}

/**
 * Whether a block is rather to be had from another: who has everything is spared for what nobody else has, while others
 * give us as much, and enough to wait for. Where it is fast, they have to give far more: its link is there to be used. Not
 * what somebody waits for.
 */
function isLeftToOthers(asking: Asking, view: View, at: number): boolean {
  const { live } = asking.wants
  const { holders } = asking.wants.get(at)
  if (holders < 2 || asking.askedBytes < asking.enoughBytes) return false
  if (!view.has.hasAll(live) || asking.wants.urgentPlace(at) !== null) return false
  let full = 0
  let fullRate = 0
  let othersRate = 0
  for (const other of asking.views.values()) {
    const rate = other.silentUntil === null ? other.pace.rate : 0
    if (other.has.hasAll(live)) {
      full++
      fullRate += rate
    } else {
      othersRate += rate
    }
  }
  const isFast = fullRate * (asking.views.size - full) > othersRate * full * FAST
  return holders > full && othersRate >= (isFast ? fullRate * FAST : fullRate)
}

/**
 * A block that is asked of a crowded peer has come to another as well: the crowded one is asked for something in its stead
 * that it alone has. So a lone seeder, whom everyone asks, sends what nobody has yet, and the others get the rest from one
 * another.
 */
function askForWhatItAloneHas(asking: Asking, now: Nanos, at: number): void {
  const server = soleServer(asking, at)
  if (server === null || !willWait(server.view, server.ask, now)) return
  const rarest = choose(asking.wants, asking.dice.throw(), (half) => server.view.has.half(half))
  if (rarest === null || asking.wants.get(rarest).holders > 1) return
  asking.takeBack(at, server.peer)
  asking.ask(now, rarest, server.peer)
}

/**
 * What is suddenly urgent and far from its turn is to be asked of whoever has it the soonest, before what is less urgent.
 */
export function hurry(asking: Asking, now: Nanos): void {
  for (const at of [...asking.wants.urgent()]) {
    const server = soleServer(asking, at)
    if (server !== null && willWait(server.view, server.ask, now)) asking.takeBack(at, server.peer)
    if (asking.wants.isOpen(at)) makeRoom(asking, now, at)
  }
}

/**
 * One of those who have a block that is urgent is to have room for it: what it was asked for last, is less urgent and waits
 * for its turn is taken back.
 */
function makeRoom(asking: Asking, now: Nanos, at: number): void {
  const holders = [...asking.views].filter(([, view]) => view.silentUntil === null && view.mayHave(at))
  const hasRoom = (view: View) => view.hasRoom && !new Budget(asking).isSpent(view)
  if (holders.some(([, view]) => hasRoom(view))) return
  for (const [peer, view] of holders) {
    for (let last = lastWaiting(asking, now, view); last !== null; last = lastWaiting(asking, now, view)) {
      asking.takeBack(last, peer)
      if (hasRoom(view)) return
    }
  }
}

/** What a peer was asked for last of all that is not urgent and waits for its turn. */
function lastWaiting(asking: Asking, now: Nanos, view: View): number | null {
  let last: { readonly at: number; readonly ask: Ask } | null = null
  for (const [at, ask] of view.asked) {
    if (asking.wants.urgentPlace(at) !== null || !willWait(view, ask, now)) continue
    const isLater = last === null || ask.at > last.ask.at || (ask.at === last.ask.at && ask.ahead > last.ask.ahead)
    if (isLater) last = { at, ask }
  }
  return last?.at ?? null
}

/** Whom alone a block is asked of. */
function soleServer(asking: Asking, at: number): { peer: PeerId; view: View; ask: Ask } | null {
  const askedOf = asking.wants.findAt(at)?.askedOf ?? []
  const [peer] = askedOf
  if (peer === undefined || askedOf.length > 1) return null
  const view = asking.views.get(peer)
  const ask = view?.asked.get(at)
  return view === undefined || ask === undefined ? null : { peer, view, ask }
}

/** Whether a block is so far from its turn that it can be taken back before. */
function willWait({ pace, deliveredAt }: View, ask: Ask, now: Nanos): boolean {
  if (!ask.isSpoken) return true
  const guard = Math.max(WAIT_MIN, (pace.base ?? 0) * 2)
  if (pace.rate === 0) return since(now, ask.at) > WAIT_MIN
  const ahead = Math.max(0, ask.ahead - (pace.delivered - ask.delivered)) + ask.bytes
  const turn = Math.max(ask.at, deliveredAt) + timeOf(ahead, pace.rate)
  // What is overdue waits for others.
  return turn > now + guard || turn + guard < now
}

/**
 * The open want in a set that is to be asked first: one of those named as such; otherwise the most urgent, among equals
 * the rarest, and among those the first behind a random place.
 */
function choose(wants: Wants, thrown: bigint, among: (half: number) => number): number | null {
  for (const at of wants.urgent()) {
    if (wants.isOpen(at) && ((among(at >>> 5) >>> (at & 31)) & 1) === 1) return at
  }
  for (const open of wants.open()) {
    const start = Number(thrown % BigInt(open.words))
    // Within the word as well, or all would begin at multiples of 64.
    const turn = Number((thrown >> 32n) % 64n)
    let best: { readonly holders: number; readonly at: number } | null = null
    let compared = 0
    for (const at of onesFrom(open.words, (half) => open.half(half) & among(half), start, turn)) {
      const { holders } = wants.get(at)
      if (best === null || holders < best.holders) best = { holders, at }
      if (++compared >= COMPARED_MAX) break
    }
    if (best !== null) return best.at
  }
  return null
}

/** Near the end a slow peer is not given what the others will have fetched sooner. */
function isTooSlowFor(asking: Asking, view: View, at: number): boolean {
  const left = asking.wants.openSize * asking.limits.blockBytesGuess
  if (left > asking.askedBytes || asking.wants.get(at).holders < 2 || view.pace.rate === 0) return false
  let rate = 0
  for (const other of asking.views.values()) if (other.silentUntil === null) rate += other.pace.rate
  const rest = timeOf(left + asking.askedBytes, rate)
  return view.takes(asking.bytesOf(at)) > rest * 2 + (view.pace.base ?? 0) * 2
}

/** An idle peer takes over what another has not come to, or in the tail is asked as well. */
function takeOver(asking: Asking, now: Nanos, peer: PeerId): boolean {
  const view = asking.views.get(peer)
  if (view === undefined) return false
  if (view.lookedAroundAt !== null && since(now, view.lookedAroundAt) < LOOK_INTERVAL) return false
  view.lookedAroundAt = now
  if (view.isIdler) return false
  const { live } = asking.wants
  let best: { wait: Nanos; at: number; other: PeerId; isSafe: boolean } | null = null
  let compared = 0
  for (const at of ones(live.words, (half) => live.half(half) & view.has.half(half))) {
    if (compared++ >= COMPARED_MAX) break
    const server = soleServer(asking, at)
    if (server === null) continue
    // Who had its chance is not given another, or two that send nothing would pass it to and fro.
    const hasChance = asking.wants.openSize === 0 && !view.late.has(asking.wants.get(at).cid)
    const isVain = hasChance && waitsInVain(view, server.view, server.ask, now)
    const found = isVain ? { wait: since(now, server.ask.at), isSafe: true } : comesSooner(view, server.view, server.ask, now)
    if (found === null) continue
    const { wait, isSafe } = found
    const isBetter = best === null || (isSafe === best.isSafe ? wait > best.wait : isSafe)
    if (isBetter) best = { wait, at, other: server.peer, isSafe }
  }
  if (best === null) return false
  if (best.isSafe) {
    asking.takeBack(best.at, best.other)
  } else {
    const budget = Math.floor((asking.wantedTotal * asking.limits.hedgesPerMille) / 1000)
    if (asking.wants.openSize > 0 || asking.hedges >= Math.max(1, budget)) return false
    asking.hedges++
    asking.totals.hedges++
  }
  asking.ask(now, best.at, peer)
  return true
}

/**
 * Whether a block would come much sooner from an idle peer than from whom it was asked of: for how long it is still waited
 * for there, and whether it can be taken back before it is sent.
 */
function comesSooner(idle: View, asked: View, ask: Ask, now: Nanos): { wait: Nanos; isSafe: boolean } | null {
  const { pace } = asked
  const delivered = pace.delivered - ask.delivered
  const base = pace.base ?? 0
  const before = pace.rate === 0 ? 0 : timeOf(Math.max(0, ask.ahead - delivered), pace.rate)
  const wait = before + Math.min(timeOf(ask.bytes, pace.rate), since(now, ask.at))
  if (wait <= idle.takes(ask.bytes) * 2 + base) return null
  // A cancel that gets there before the block's turn makes no duplicate. One that was overtaken by many others is being
  // kept for later.
  const isOvertaken = delivered > ask.ahead + 8 * ask.bytes
  return { wait, isSafe: isOvertaken || asked.isIdler || before > base * 2 + 50 * MILLI }
}

/**
 * Whether a block has been waited for as long as an idle peer usually takes, at one that serves others: nothing of a block
 * comes from there, for longer than is usual there. It is unlikely to be sent just now.
 */
function waitsInVain(idle: View, asked: View, ask: Ask, now: Nanos): boolean {
  const usual = (asked.pace.base ?? 0) * 2 + STANDSTILL_MIN
  const isAtStandstill = !asked.isSending && since(now, Math.max(asked.sentAt, ask.at)) > Math.max(usual, asked.gap)
  return isAtStandstill && idle.pace.usual !== null && since(now, ask.at) > idle.pace.usual
}

export function handleTick(asking: Asking, now: Nanos): void {
  const silent: { readonly peer: PeerId; readonly at: number }[] = []
  let askedPeers = 0
  for (const view of asking.views.values()) if (view.asked.size > 0) askedPeers++
  for (const [peer, view] of asking.views) {
    if (view.silentUntil !== null && view.silentUntil <= now) {
      view.silentUntil = null
      asking.isHungry(peer)
    }
    const silentAt = view.silentAt()
    if (silentAt === null || silentAt > now) continue
    // Where our own link is what is slow, all take turns on it: who has not had many of them is not silent. While nobody
    // takes turns, it is.
    const others = asking.pieces - view.heardPieces
    if (asking.pieces > view.excusedPieces && others < PIECES_PER_TURN * askedPeers && view.excused < EXCUSED_MAX) {
      view.excused++
      view.excusedPieces = asking.pieces
      view.heardAt = now
      continue
    }
    const wait = asking.limits.patience * 2 ** Math.min(view.silences, 8)
    view.silences++
    view.silentUntil = now + Math.min(wait, SILENT_MAX)
    for (const at of [...view.asked.keys()].sort((a, b) => a - b)) silent.push({ peer, at })
  }
  for (const { peer, at } of silent) {
    // It may be busy with others, so it is told: an answer in spite of that would be a duplicate.
    if (isSaidElsewhere(asking, at)) {
      if (asking.takeBack(at, peer)) asking.totals.silences++
      continue
    }
    const view = asking.views.get(peer)
    if (view !== undefined && (view.isNewcomer || view.silences >= SILENCES_BEFORE_AGAIN)) asking.askAgain(at, peer)
  }
  if (asking.tailAt !== null && asking.tailAt <= now) {
    asking.tailAt = null
    asking.allAreHungry()
  }
}

function isSaidElsewhere(asking: Asking, at: number): boolean {
  for (const view of asking.views.values()) if (view.silentUntil === null && view.has.has(at)) return true
  return false
}
