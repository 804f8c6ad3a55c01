// Counts instructions and allocations of the workloads of `watchfire-gate`, with valgrind.
//
// Times of a shared machine differ by half between two runs. Instructions do not depend on what else runs: the same program counts the same
// each time. They leave out waits for memory, so a figure here is no speed. It answers one question: does this commit do more work?

import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const run = promisify(execFile)

/**
 * `per` is how many of its units a round has. Of a workload with `kept`, the bytes that are allocated at the end are a figure too.
 *
 * @type {{ name: string, rounds: number, per: number, unit: string, kept?: string }[]}
 */
const WORKLOADS = [
  // Four nodes get 256 blocks each.
  { name: 'exchange', rounds: 1, per: 4 * 256, unit: 'a block' },
  { name: 'exchange-leaves', rounds: 1, per: 4 * 256, unit: 'a block' },
  { name: 'messages', rounds: 50, per: 1, unit: 'a message' },
  { name: 'file', rounds: 2, per: 16, unit: 'a block of 16 KiB' },
  { name: 'delivery', rounds: 200, per: 1000, unit: 'a delivery' },
  { name: 'join', rounds: 2000, per: 1, unit: 'a join', kept: 'a joined client with a presence' },
  { name: 'presence', rounds: 2000, per: 2.5, unit: 'a change', kept: 'two presences, of which one has left' },
  { name: 'subscription', rounds: 10_000, per: 2, unit: 'a subscription', kept: 'two subscriptions and a topic' },
  { name: 'history', rounds: 10_000, per: 1, unit: 'a message', kept: 'a message' },
  { name: 'poll', rounds: 1000, per: 10, unit: 'a poll' },
  { name: 'tracker', rounds: 2000, per: 1, unit: 'a peer', kept: 'a peer' },
]

export const WORKLOAD_NAMES = WORKLOADS.map(({ name }) => name)

/** Bands: an unrelated change moves instructions by up to a percent, because the compiler arranges the code in another way. */
const INSTRUCTIONS_BAND = 0.03
const MEMORY_BAND = 0.01

/**
 * The figures of all workloads, or of those in `only`.
 *
 * @param {string} program
 * @param {string[]} only
 * @returns {Promise<import('./compare.mjs').Figure[]>}
 */
export async function countWork(program, only) {
  const chosen = WORKLOADS.filter(({ name }) => only.length === 0 || only.includes(name))
  return (await twoAtATime(chosen, (workload) => figuresOf(program, workload))).flat()
}

async function figuresOf(program, { name, rounds, per, unit, kept }) {
  const [none, all] = [await count(program, name, 0), await count(program, name, rounds)]
  const difference = (of, units) => round((all[of] - none[of]) / units)
  const figures = [
    { figure: `${name}: instructions`, unit, value: difference('instructions', rounds * per), band: INSTRUCTIONS_BAND },
    { figure: `${name}: allocations`, unit, value: difference('allocations', rounds * per), band: MEMORY_BAND },
  ]
  if (kept) figures.push({ figure: `${name}: bytes kept`, unit: kept, value: difference('kept', rounds), band: MEMORY_BAND })
  return figures.map((figure) => ({ ...figure, compiled: true }))
}

async function count(program, name, rounds) {
  const valgrind = async (...tool) => (await run('valgrind', [...tool, program, name, `${rounds}`])).stderr
  const instructions = await valgrind('--tool=cachegrind', '--cache-sim=no', '--cachegrind-out-file=/dev/null')
  const memory = await valgrind('--tool=dhat', '--dhat-out-file=/dev/null')
  return {
    instructions: read(instructions, /I +refs: +([\d,]+)/),
    allocations: read(memory, /Total: .* in ([\d,]+) blocks/),
    kept: read(memory, /At t-end: +([\d,]+) bytes/),
  }
}

function read(text, pattern) {
  const found = text.match(pattern)
  if (!found) throw new Error(`cannot read what valgrind printed: no ${pattern}\n${text}`)
  return Number(found[1].replaceAll(',', ''))
}

/** Six digits, so that a line of the file changes only with the value. */
export function round(value) {
  return Number(value.toPrecision(6))
}

/** Runs `work` on each item, two at a time, and keeps the order of the results. */
async function twoAtATime(items, work) {
  const results = []
  const waiting = items.map((item, at) => ({ item, at }))
  const worker = async () => {
    for (let next = waiting.shift(); next; next = waiting.shift()) results[next.at] = await work(next.item)
  }
  await Promise.all([worker(), worker()])
  return results
}
