import assert from 'node:assert/strict'
import { test } from 'node:test'

import { Channel } from '../dist/channel.js'

/** A channel whose server is the test: `answer` is the server's answer to the latest join. */
function channelOf() {
  const receivers = {}
  const push = {
    receive(status, act) {
      receivers[status] = act
      return push
    },
  }
  const phoenix = {
    on: () => 0,
    onMessage: (_event, _payload, _ref) => {},
    onError: () => 0,
    onClose: () => 0,
    leave: () => (world.left += 1),
    join: () => push,
  }
  const world = { left: 0, statuses: [], phoenix, answer: (status, response) => receivers[status](response) }
  const socket = { topics: new Set(), connect: () => {}, channel: () => phoenix }
  // The constructor is no part of the package's types.
  const channel = Reflect.construct(Channel, [socket, 'news:1', {}])
  channel.onStatus((status) => world.statuses.push(status))
  return { channel, world }
}

test('a first join waits while the server refuses it for a reason that passes', async () => {
  for (const reason of ['too fast', 'backend_unavailable', 'join crashed']) {
    const { channel, world } = channelOf()
    const joined = channel.join()
    // npm phoenix joins again after each refusal, with growing delays.
    world.answer('error', { reason })
    world.answer('error', { reason })
    assert.deepEqual([world.left, world.statuses.at(-1)], [0, { kind: 'refused', reason }])
    world.answer('ok', { seats: 7 })
    assert.deepEqual(await joined, { seats: 7 })
    assert.deepEqual(world.statuses.at(-1), { kind: 'joined', recovered: false })
  }
})

test('a first join that the server refuses for good is rejected at once', async () => {
  for (const reason of ['unauthorized', 'unmatched topic', 'too many channels joined', 'banned']) {
    const { channel, world } = channelOf()
    const joined = channel.join()
    world.answer('error', { reason })
    await assert.rejects(joined, { name: 'RefusedError', reason })
    assert.deepEqual([world.left, world.statuses], [1, [{ kind: 'closed', reason }]])
  }
})

test('a listener that throws keeps an event from no other one, and its error is reported', async (context) => {
  const { channel, world } = channelOf()
  const uncaught = []
  // The runner of the tests has a listener of its own, which would fail this test.
  const ofRunner = process.listeners('unhandledRejection')
  process.removeAllListeners('unhandledRejection').on('unhandledRejection', (error) => uncaught.push(Object(error).message))
  context.after(() => {
    process.removeAllListeners('unhandledRejection')
    for (const listener of ofRunner) process.on('unhandledRejection', listener)
  })
  const seen = []
  const failing = (name) => () => {
    throw new Error(name)
  }
  for (const [name, listen] of Object.entries({
    status: (listener) => channel.onStatus(listener),
    reload: (listener) => channel.onReload(listener),
    note: (listener) => channel.on('note', listener),
  })) {
    listen(failing(name))
    listen(() => seen.push(name))
  }
  void channel.join()
  world.answer('ok', {})
  world.phoenix.onMessage('note', { n: 1 }, null)
  assert.deepEqual(seen, ['status', 'reload', 'note'])
  await new Promise((resolve) => setTimeout(resolve))
  assert.deepEqual(uncaught, seen)
})
