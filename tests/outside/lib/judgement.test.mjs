import assert from 'node:assert/strict'
import { test } from 'node:test'

import { judge } from './judgement.mjs'

const failed = (name) => ({ name, isPassed: false, found: 'no' })
const passed = (name) => ({ name, isPassed: true })

test('a case that did not pass is explained by the first sentence that matches its name', () => {
  const {
    count,
    passed: good,
    explained,
    unexplained,
  } = judge([passed('1.1'), failed('12.1'), failed('12.2'), failed('7.1')], { '12.*': 'No compression.', 7.1: 'Closes early.' })
  assert.deepEqual({ count, good }, { count: 4, good: 1 })
  assert.deepEqual(explained, [
    { sentence: 'No compression.', cases: ['12.1', '12.2'] },
    { sentence: 'Closes early.', cases: ['7.1'] },
  ])
  assert.deepEqual(unexplained, [])
})

test('a case without a sentence stays unexplained, with what the suite found', () => {
  assert.deepEqual(judge([failed('a.b')], { axb: 'Another case.' }).unexplained, [{ name: 'a.b', found: 'no' }])
})

test('a sentence that no case needs any more is reported', () => {
  assert.deepEqual(judge([passed('1.1')], { 1.1: 'It was wrong once.' }).unused, ['1.1'])
})
