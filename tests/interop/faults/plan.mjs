// A seed's plan: which faults happen, to what, for how long and in which order. The same seed has the same plan.

/**
 * Where faults happen: the processes of each machine, the number of NATS servers, and whether a machine knows only one of them.
 * @type {Record<string, { machines: number[], nats: number, isOwn?: boolean, replicas?: number }>}
 */
export const TOPOLOGIES = {
  'one-machine': { machines: [3], nats: 0 },
  'one-nats': { machines: [2, 1, 1], nats: 1 },
  'own-nats': { machines: [1, 1, 1], nats: 3, isOwn: true },
  'three-nats': { machines: [2, 1, 1], nats: 3, replicas: 3 },
}

/** The topologies of the slice in `make test`, by turns of its seeds. */
export const SLICE_TOPOLOGIES = ['one-machine', 'own-nats']

const ROUNDS = 3
const SHORTEST_MS = 1_000
const LONGEST_MS = 15_000
/** Within this time, a silent machine counts as gone for the others, and a supervisor replaces a process that does not respond. */
const EDGE_MS = [5_500, 8_500]

/** The kinds of faults that a topology can have, and the numbers of the machines or servers that each can hit. */
function kindsOf({ machines, nats }) {
  const all = machines.map((_, at) => at)
  const several = all.filter((at) => machines[at] > 1)
  const servers = Array.from({ length: nats }, (_, at) => at)
  const kinds = {
    'kill worker': several,
    'stop worker': several,
    'kill machine': all,
    'stop machine': all,
    // Of all machines, one after the other.
    upgrade: [0],
    'kill nats': servers,
    'stop nats': servers,
    // The server that leads the stream at that moment.
    'kill leader': servers.slice(0, 1),
    'stop leader': servers.slice(0, 1),
    // All clients lose their connections, and come back together.
    storm: [0],
  }
  return Object.entries(kinds).filter(([, targets]) => targets.length > 0)
}

const isOfNats = ({ kind }) => /nats|leader/.test(kind)
const isOfMachine = ({ kind }) => /worker|machine|upgrade/.test(kind)

/** Whether two faults may last at the same time. Of three NATS servers, a majority must stay: two that are lost lose a stream. */
function conflict(one, other) {
  if (one.kind === other.kind || (isOfNats(one) && isOfNats(other))) return true
  const isUpgrade = one.kind === 'upgrade' || other.kind === 'upgrade'
  return isOfMachine(one) && isOfMachine(other) && (isUpgrade || one.target === other.target)
}

/** The rounds of faults of a seed. The faults of a round begin together; the next round begins when all is well again. */
export function planOf(seed, topology) {
  const random = randomOf(seed)
  const between = (low, high) => Math.round(low + random() * (high - low))
  const pick = (items) => items[Math.floor(random() * items.length)]
  const kinds = kindsOf(TOPOLOGIES[topology])
  const draw = () => {
    const [kind, targets] = pick(kinds)
    const ms = random() < 0.5 ? between(SHORTEST_MS, LONGEST_MS) : between(EDGE_MS[0], EDGE_MS[1])
    return { kind, target: pick(targets), ms, which: random() }
  }
  return Array.from({ length: ROUNDS }, () => {
    const [first, second] = [draw(), draw()]
    const isAlone = random() < 0.6 || conflict(first, second)
    return { afterMs: between(500, 3_000), faults: isAlone ? [first] : [first, second] }
  })
}

/** A fault in words. */
export function nameOf({ kind, target, ms }) {
  const what = /upgrade|leader|storm/.test(kind) ? kind : `${kind} ${target}`
  return /upgrade|kill worker/.test(kind) ? what : `${what} for ${(ms / 1_000).toFixed(1)} s`
}

/** Random numbers from 0 to 1, the same for the same seed (mulberry32). */
export function randomOf(seed) {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
