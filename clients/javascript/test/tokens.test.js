import assert from 'node:assert/strict'
import { test } from 'node:test'

import { Tokens, endOf } from '../dist/tokens.js'

/** A token with this end, in seconds. The client does not read its signature. */
const jwt = (exp, name = '') =>
  `${['{"alg":"HS256"}', JSON.stringify({ sub: 'ada', exp, name })].map((part) => Buffer.from(part).toString('base64url')).join('.')}.x`

/** Tokens with a clock that only a test moves; a wait ends at once. */
function tokensOf(getToken) {
  const world = { now: 0, waits: [], errors: [], calls: 0 }
  const clock = { now: () => world.now, wait: async (ms) => void world.waits.push(ms) }
  const counted = () => getToken(++world.calls)
  const tokens = new Tokens(counted, (error) => world.errors.push(error.message), clock)
  return { tokens, world }
}

test('a token is used for each connection until shortly before its end', async () => {
  const { tokens, world } = tokensOf((call) => jwt(60 * call))
  assert.equal(await tokens.valid(), jwt(60))
  world.now = 54_000
  assert.equal(await tokens.valid(), jwt(60))
  world.now = 56_000
  assert.equal(await tokens.valid(), jwt(120))
  assert.equal(tokens.latest, jwt(120))
})

test('spaces around a token, such as the last new line of a text, are not part of it', async () => {
  const { tokens } = tokensOf(() => ` ${jwt(60)}\n`)
  assert.equal(await tokens.valid(), jwt(60))
})

test('a token in quotes is reported as such, because the server would refuse it without a reason', async () => {
  const { tokens, world } = tokensOf((call) => (call < 2 ? JSON.stringify(jwt(60)) : jwt(60)))
  assert.equal(await tokens.valid(), jwt(60))
  assert.match(world.errors[0], /did not return a JWT.* no quotes/)
})

test('calls at the same time share one call of getToken', async () => {
  const { tokens, world } = tokensOf(async (call) => jwt(call))
  assert.deepEqual(await Promise.all([tokens.renew(), tokens.renew(), tokens.valid()]), [jwt(1), jwt(1), jwt(1)])
  assert.equal(world.calls, 1)
  assert.equal(await tokens.renew(), jwt(2))
})

test('a failure is reported, and getToken is called again after growing waits', async () => {
  const { tokens, world } = tokensOf((call) => {
    if (call < 6) throw new Error('the backend is away')
    return jwt(60)
  })
  assert.equal(await tokens.valid(), jwt(60))
  assert.deepEqual(world.waits, [1_000, 2_000, 5_000, 10_000, 10_000])
  assert.equal(world.errors[0], 'cannot get a token: the backend is away; getToken() is called again')
})

test('a token with which no connection opens is replaced after a while', async () => {
  const { tokens, world } = tokensOf((call) => jwt(3_600, `token ${call}`))
  const first = await tokens.valid()
  tokens.doubt()
  world.now = 29_000
  assert.equal(await tokens.valid(), first)
  world.now = 30_000
  const second = await tokens.valid()
  assert.notEqual(second, first)
  world.now = 90_000
  assert.equal(await tokens.valid(), second, 'the doubt was about the first token')
})

test('a token is used even if the clock of this machine is fast', async () => {
  const { tokens, world } = tokensOf(() => jwt(60))
  world.now = 3_600_000
  assert.equal(await tokens.valid(), jwt(60))
})

test('stop ends the wait for a token, and a later call begins again', async () => {
  let answer
  const { tokens } = tokensOf((call) => (call === 1 ? new Promise((resolve) => (answer = resolve)) : jwt(60, 'second')))
  const stopped = tokens.valid()
  tokens.stop()
  assert.equal(await tokens.valid(), jwt(60, 'second'))
  answer(jwt(60, 'first'))
  assert.equal(await stopped, undefined)
  assert.equal(tokens.latest, jwt(60, 'second'))
})

test('a value that is no JWT gets an error that says why', () => {
  assert.equal(endOf(jwt(7)), 7_000)
  assert.equal(endOf(jwt(7, 'Zoë ›?~')), 7_000)
  for (const value of [undefined, 7, '', 'text', 'a.b', 'a.b.c.d', `"${jwt(7)}"`, `Bearer ${jwt(7)}`, `${jwt(7)}=`, `${jwt(7)}\n`])
    assert.throws(() => endOf(value), /did not return a JWT/)
  assert.throws(() => endOf('a.b.c'), /not JSON in base64url/)
  assert.throws(() => endOf(jwt('soon')), /no claim "exp"/)
  assert.throws(() => endOf('a.bnVsbA.c'), /./)
})
