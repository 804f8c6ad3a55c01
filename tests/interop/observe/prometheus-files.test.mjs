// The rules and alerts of deploy/prometheus are valid, and their own tests pass.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, it } from 'node:test'

import { RULES } from '../lib/prometheus.mjs'

const promtool = (...args) => execFileSync('promtool', args, { cwd: RULES, encoding: 'utf8' })

describe('the files for Prometheus', () => {
  it('are valid', () => {
    promtool('check', 'config', 'prometheus.yml')
    promtool('check', 'rules', 'recording.yml', 'alerts.yml')
  })

  it('have alerts that fire when they must, and not before', () => {
    assert.match(promtool('test', 'rules', 'tests.yml'), /SUCCESS/)
  })

  it('test each alert', () => {
    const tests = readFileSync(path.join(RULES, 'tests.yml'), 'utf8')
    const untested = alertNames().filter((name) => !tests.includes(`name: ${name} fires`))
    assert.deepEqual(untested, [])
  })
})

function alertNames() {
  return [...readFileSync(path.join(RULES, 'alerts.yml'), 'utf8').matchAll(/- alert: (\S+)/g)].map(([, name]) => name)
}
