import assert from 'node:assert/strict'
import { test } from 'node:test'

import { History, isAfter, positionOf } from '../dist/history.js'

test('a first join asks for the last messages, and later ones for those after the last position', () => {
  const history = new History()
  assert.equal(history.request(undefined), undefined)
  assert.deepEqual(history.request(50), { last: 50 })
  history.noteJoined({ recovered: false, position: 'k3f9:17' })
  assert.deepEqual(history.request(50), { after: 'k3f9:17' })
  history.noteMessage('k3f9:18')
  assert.deepEqual(history.request(50), { after: 'k3f9:18' })
})

test('a message that has arrived before is not delivered', () => {
  const history = new History()
  assert.deepEqual(
    ['a:1', 'a:2', 'a:2', 'a:1', 'a:10'].map((position) => history.noteMessage(position)),
    [true, true, false, false, true],
  )
  history.noteJoined({ recovered: true, position: 'a:12' })
  assert.deepEqual(
    ['a:10', 'a:11', 'a:12'].map((position) => history.noteMessage(position)),
    [false, true, true],
  )
})

test('the last messages, which a first join asks for, come before its position', () => {
  const history = new History()
  assert.equal(history.noteJoined({ recovered: false, position: 'a:7' }), false)
  assert.deepEqual(
    ['a:6', 'a:7', 'a:8'].map((position) => history.noteMessage(position)),
    [true, true, true],
  )
})

test('a history that begins again is another epoch', () => {
  const history = new History()
  history.noteMessage('a:9')
  assert.equal(history.noteJoined({ recovered: false, position: null }), false)
  assert.equal(history.request(undefined), undefined)
  assert.equal(history.noteMessage('b:1'), true)
  assert.deepEqual(history.request(undefined), { after: 'b:1' })
})

test('a topic without a history recovers nothing', () => {
  const history = new History()
  assert.equal(history.noteJoined({}), false)
  assert.equal(history.request(undefined), undefined)
})

test('refs of replies and heartbeats are no positions', () => {
  for (const ref of ['17', 17, null, undefined, '', ':1', 'a:', 'a:b', 'a:1:2']) assert.equal(positionOf(ref), null, String(ref))
  assert.equal(positionOf('k3f9:17'), 'k3f9:17')
  assert.ok(isAfter('a:10', 'a:9'))
  assert.ok(!isAfter('a:9', 'a:9'))
})
