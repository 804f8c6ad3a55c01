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
  const phoenix = { on: () => 0, onError: () => 0, onClose: () => 0, leave: () => (world.left += 1), join: () => push }
  const world = { left: 0, statuses: [], answer: (status, response) => receivers[status](response) }
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
