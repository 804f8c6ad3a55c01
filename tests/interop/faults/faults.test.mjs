// Faults by seed, and a checker that judges what clients saw of them. `make test-faults` runs it.
//
// FAULT_SEEDS (8)  how many seeds
// FAULT_SEED (1)   the first one: a seed that failed repeats its plan of faults
// FAULT_ON         where: topologies of plan.mjs, separated by commas
// FAULT_SLICE      runs the topologies of the slice in `make test`

import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'

import { newFolder } from '../lib/folders.mjs'
import { buildNats, whyNoNats } from '../lib/nats.mjs'
import { check, excerpt, groupBy, picture } from './checker.mjs'
import { SLICE_TOPOLOGIES, TOPOLOGIES } from './plan.mjs'
import { run } from './world.mjs'

const { FAULT_SEEDS = '8', FAULT_SEED = '1', FAULT_ON, FAULT_SLICE } = process.env
const on = FAULT_ON?.split(',') ?? (FAULT_SLICE ? SLICE_TOPOLOGIES : Object.keys(TOPOLOGIES))
const unknown = on.find((name) => !(name in TOPOLOGIES))
assert(!unknown, `cannot inject faults on ${unknown}: FAULT_ON names some of ${Object.keys(TOPOLOGIES).join(', ')}`)
const [count, first] = [Number(FAULT_SEEDS), Number(FAULT_SEED)]
assert(count > 0 && first >= 0, `cannot inject faults: FAULT_SEEDS=${FAULT_SEEDS} and FAULT_SEED=${FAULT_SEED} are not both numbers`)
const seeds = Array.from({ length: count }, (_, at) => first + at)

// A run mostly waits.
describe('what is acknowledged is delivered once and in order, or the client is told', { concurrency: 2 }, () => {
  before(async () => on.some((name) => TOPOLOGIES[name].nats > 0) && !whyNoNats && (await buildNats()))
  for (const seed of seeds) {
    const topology = on[seed % on.length]
    const { nats } = TOPOLOGIES[topology]
    it(`seed ${seed} on ${topology}`, { skip: nats > 0 && whyNoNats }, async (t) => {
      const history = await run(seed, topology, newFolder(t))
      const violations = check(history)
      t.diagnostic(figuresOf(history))
      if (violations.length > 0) assert.fail(report(seed, topology, history, violations))
      // On one machine only the end of its server empties the histories.
      const isKept = nats === 0 && !history.faults.some(({ what }) => what.startsWith('kill machine'))
      if (isKept) assert.equal(tellsOf(history), 0, figuresOf(history))
    })
  }
})

/** How often clients were told, after their first joins, that messages may be lost. */
function tellsOf({ followers }) {
  const joins = followers.flatMap(({ events }) => events).filter(({ kind }) => kind === 'joined')
  return joins.filter(({ recovered }) => !recovered).length - followers.length
}

function figuresOf({ published, followers, faults }) {
  const events = followers.flatMap(({ events }) => events)
  const joins = events.filter(({ kind }) => kind === 'joined')
  const acknowledged = published.filter((message) => message.acknowledged !== null)
  return [
    `${acknowledged.length} of ${published.length} messages acknowledged, ${events.length - joins.length} deliveries`,
    `${joins.length} joins, ${tellsOf({ followers })} after the first told that messages may be lost`,
    ...faults.map(({ what }) => what),
  ].join('; ')
}

/** How often each kind of violation happened, when, and the first of each. */
function report(seed, topology, history, violations) {
  const kinds = [...groupBy(violations, ({ kind }) => kind)]
  return [
    kinds.map(([kind, all]) => `${kind}: ${all.length}`).join(', '),
    figuresOf(history),
    picture(history, violations),
    ...kinds.map(([, [first]]) => excerpt(history, first)),
    `again: FAULT_SEED=${seed} FAULT_SEEDS=1 FAULT_ON=${topology} make test-faults`,
  ].join('\n\n')
}
