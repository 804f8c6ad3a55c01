import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import test from 'node:test'
import { fileURLToPath } from 'node:url'

const GATE = fileURLToPath(new URL('gate.mjs', import.meta.url))

test('a workload that does not exist is an error, and not a run without figures', () => {
  const { status, stderr } = spawnSync('node', [GATE, '--only', 'join,exhange'], { encoding: 'utf8' })
  assert.equal(status, 1)
  assert.match(stderr, /^cannot count exhange: no such workload; choose from exchange, exchange-leaves, /)
})
