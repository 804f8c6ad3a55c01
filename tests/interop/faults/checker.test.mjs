// The checker judges histories that are written by hand: each violation is found, and what the promise allows is not one.

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'

import { check, excerpt, picture } from './checker.mjs'
import { TOPOLOGIES, nameOf, planOf } from './plan.mjs'

const TOPIC = 'kept:1'

/** A history of one topic. Ann publishes the message n at 100 n, and has its acknowledgement at 100 n + 50 unless `unanswered` has n. */
function history(count, events, /** @type {Record<string, any>} */ { unanswered = [], others = [], ...more } = {}) {
  const published = Array.from({ length: count }, (_, index) => {
    const n = index + 1
    return { topic: TOPIC, publisher: 'ann', n, at: 100 * n, acknowledged: unanswered.includes(n) ? null : 100 * n + 50 }
  })
  const followers = [events, ...others].map((list, at) => ({ client: `client-${at}`, topic: TOPIC, events: list }))
  return { published, followers, ...more }
}

const joined = (at, position, recovered = false) => ({ at, kind: 'joined', recovered, position })
const got = (n, position = `a:${n}`, at = 100 * n + 60) => ({ at, kind: 'message', publisher: 'ann', n, position })
const kinds = (count, events, more) =>
  check(history(count, events, more)).map(({ kind, message }) => (message ? `${kind} ${message}` : kind))
const FIRST = joined(0, 'a:0')

describe('the checker', () => {
  it('accepts messages that arrive once and in order, also after a recovered join', () => {
    assert.deepEqual(kinds(4, [FIRST, got(1), got(2), joined(290, 'a:2', true), got(3), got(4)]), [])
  })

  it('finds an acknowledged message that is lost in the middle, and one at the end', () => {
    assert.deepEqual(kinds(3, [FIRST, got(1), got(3)]), ['lost ann 2'])
    assert.deepEqual(kinds(3, [FIRST, got(1), got(2)]), ['lost ann 3'])
  })

  it('finds the loss when positions go on without a gap', () => {
    assert.deepEqual(kinds(4, [FIRST, got(1), got(3, 'a:2'), got(4, 'a:3')]), ['lost ann 2'])
  })

  it('finds the loss when the client joined with recovered: true in between', () => {
    assert.deepEqual(kinds(3, [FIRST, got(1), joined(290, 'a:2', true), got(3)]), ['lost ann 2'])
  })

  it('finds a message that arrives twice', () => {
    assert.deepEqual(kinds(2, [FIRST, got(1), got(2), got(2)]), ['double ann 2'])
    assert.deepEqual(kinds(2, [FIRST, got(1), got(2), joined(290, 'a:2', true), got(1)]), ['double ann 1'])
  })

  it('finds a message that is stored twice, also when the client was told in between', () => {
    assert.deepEqual(kinds(2, [FIRST, got(1), joined(190, 'a:1'), got(1, 'a:2'), got(2, 'a:3')]), ['position ann 1'])
  })

  it('finds a swapped pair', () => {
    assert.deepEqual(kinds(3, [FIRST, got(2), got(1), got(3)]), ['disorder ann 1'])
    assert.deepEqual(kinds(3, [FIRST, got(2, 'a:1'), got(1, 'a:2'), got(3)]), ['disorder ann 1'])
  })

  it('accepts two lines of a publisher in any order, and finds what is lost in each', () => {
    const two = history(3, [FIRST, got(2, 'a:1'), got(1, 'a:2')])
    Object.assign(two.published[1], { line: 'another line' })
    assert.deepEqual(
      check(two).map(({ kind, message }) => `${kind} ${message}`),
      ['lost ann 3'],
    )
  })

  it('finds a message from before the position of which the client was told', () => {
    assert.deepEqual(kinds(3, [FIRST, joined(290, 'a:2'), got(2), got(3)]), ['disorder ann 2'])
  })

  it('finds positions that go back, and clients that disagree about one', () => {
    assert.deepEqual(kinds(2, [FIRST, got(1, 'a:2'), got(2, 'a:1')]), ['disorder ann 2'])
    assert.deepEqual(kinds(2, [FIRST, got(1), got(2)], { others: [[FIRST, got(1), got(2, 'a:3')]] }), ['position ann 2'])
    const late = { unanswered: [1, 2], others: [[FIRST, got(2, 'a:1')]] }
    assert.deepEqual(kinds(2, [FIRST, got(1, 'a:1')], late), ['position ann 2'])
  })

  it('accepts an epoch that changes without a word, and finds a message that is lost meanwhile', () => {
    assert.deepEqual(kinds(2, [FIRST, got(1), got(2, 'b:1')]), [])
    assert.deepEqual(kinds(3, [FIRST, got(1), got(3, 'b:1')]), ['lost ann 2'])
  })

  it('accepts a loss of which the client was told before it went on', () => {
    assert.deepEqual(kinds(3, [FIRST, got(1), joined(290, 'a:2'), got(3)]), [])
    assert.deepEqual(kinds(3, [FIRST, got(1), joined(290, 'b:0'), got(3, 'b:1')]), [])
    assert.deepEqual(kinds(3, [FIRST, got(1), joined(390, null)]), [])
  })

  it('does not accept a loss of which the client was told only after it had gone on', () => {
    assert.deepEqual(kinds(3, [FIRST, got(1), got(3), joined(400, 'a:3')]), ['told late ann 2'])
  })

  it('finds a loss after the position of which the client was told, though the message was sent before the reply', () => {
    const others = [[FIRST, got(1), got(2), got(3)]]
    assert.deepEqual(kinds(3, [FIRST, got(1), joined(290, 'a:1'), got(3)], { others }), ['lost ann 2'])
  })

  it('finds a loss soon after the client was told', () => {
    assert.deepEqual(kinds(4, [FIRST, got(1), joined(290, 'b:0'), got(4, 'b:2')]), ['lost ann 3'])
  })

  it('accepts that a message without an acknowledgement arrives, arrives late, or does not', () => {
    const unanswered = [2]
    assert.deepEqual(kinds(3, [FIRST, got(1), got(2), got(3)], { unanswered }), [])
    assert.deepEqual(kinds(3, [FIRST, got(1), got(3)], { unanswered }), [])
    assert.deepEqual(kinds(3, [FIRST, got(1), got(3, 'a:2'), got(2, 'a:3', 500)], { unanswered }), [])
    assert.deepEqual(kinds(2, [FIRST, got(1), got(2), got(2)], { unanswered }), ['double ann 2'])
  })

  it('finds a message that nobody has sent', () => {
    assert.deepEqual(kinds(1, [FIRST, got(1), got(9, 'a:2')]), ['invented ann 9'])
  })

  it('finds a presence that is not the truth, and clients that are never gone', () => {
    const presence = [{ at: 1, client: 'client-0', topic: TOPIC, seen: { ann: 1, bob: 1 }, truth: { ann: 1 } }]
    assert.deepEqual(kinds(0, [FIRST], { presence }), ['presence'])
    assert.deepEqual(kinds(0, [FIRST], { presence: [{ ...presence[0], seen: { ann: 1 } }] }), [])
    assert.deepEqual(kinds(0, [FIRST], { counts: [{ at: 1, where: 'machine 0', left: { clients: 1 } }] }), ['count'])
    assert.deepEqual(kinds(0, [FIRST], { counts: [{ at: 1, where: 'machine 0', left: { clients: 0 } }] }), [])
    assert.deepEqual(kinds(0, [FIRST], { troubles: [{ at: 1, text: 'a machine panicked' }] }), ['trouble'])
  })

  it('prints the topic, the client, the message, its neighbours and the faults', () => {
    const faults = [{ at: 150, until: 280, what: 'stop nats 1' }]
    const whole = history(9, [FIRST, ...[1, 2, 3, 4, 6, 7, 8, 9].map((n) => got(n))], { faults, others: [[FIRST, got(5)]] })
    const [violation] = check(whole)
    assert.equal(
      excerpt(whole, violation),
      [
        'lost, kept:1, client client-0, message ann 5: it was acknowledged, and ann 6 arrives without it',
        '     0.000 s  client-0 joins, recovered: false, position a:0',
        '     0.150 s  fault until 0.280 s: stop nats 1',
        '     0.460 s  client-0 gets ann 4, position a:4',
        '     0.500 s  sent; acknowledged at 0.550 s',
        '     0.660 s  client-0 gets ann 6, position a:6',
        '     0.760 s  client-0 gets ann 7, position a:7',
        '  1 of 2 clients of the topic have it: client-1',
      ].join('\n'),
    )
    const rows = picture(whole, [violation], 10).split('\n')
    assert.match(rows[1], /^stop nats 1 +\.{3}={3}\.{4}$/)
    assert.match(rows[3], /^lost +\.{9}x$/)
  })
})

describe('the plan of a seed', () => {
  it('is the same each time, and another one for another seed', () => {
    for (const topology of Object.keys(TOPOLOGIES)) {
      const plans = Array.from({ length: 50 }, (_, seed) => JSON.stringify(planOf(seed, topology)))
      assert.deepEqual(
        plans,
        plans.map((_, seed) => JSON.stringify(planOf(seed, topology))),
      )
      assert.equal(new Set(plans).size, plans.length)
    }
  })

  it('has no two faults at once that hit the same machine, or two NATS servers', () => {
    const rounds = Array.from({ length: 1_000 }, (_, seed) => planOf(seed, 'three-nats')).flat()
    const together = rounds.map(({ faults }) => faults).filter(({ length }) => length > 1)
    assert(together.length > 100)
    for (const faults of together) {
      assert(faults.filter(({ kind }) => /nats|leader/.test(kind)).length < 2, faults.map(nameOf).join(' and '))
      const machines = faults.filter(({ kind }) => /machine|worker/.test(kind)).map(({ target }) => target)
      assert.equal(new Set(machines).size, machines.length)
    }
  })
})
