import assert from 'node:assert/strict'
import test from 'node:test'

import { accepted, compare, fails } from './compare.mjs'
import { measureAll } from './measured.mjs'

const here = { isSameBuilder: true, isCi: true }
const landed = [{ figure: 'memory', unit: 'a poll', value: 200, band: 0.1, compiled: false }]

/** The row and the value that would land when the runs of a server give these values, and the number of runs. */
async function measured(values, before = landed) {
  const left = [...values]
  const meter = { figure: 'memory', unit: 'a poll', band: 0.1, measure: async () => left.shift() }
  const rows = compare(before, await measureAll([meter], before))
  return { fails: rows.some((row) => fails(row, here)), value: accepted(rows, false)[0].value, runs: values.length - left.length }
}

test('a run within the band is enough', async () => {
  assert.deepEqual(await measured([219, 300, 300, 300, 300]), { fails: false, value: 200, runs: 1 })
})

test('one run that is worse by chance does not fail the gate, and a server that is worse does', async () => {
  assert.deepEqual(await measured([240, 205, 195, 210, 198]), { fails: false, value: 200, runs: 5 })
  assert.deepEqual(await measured([240, 205, 238, 236, 245]), { fails: true, value: 238, runs: 5 })
})

test('the lucky run of a gain does not land', async () => {
  assert.deepEqual(await measured([160, 205, 195, 210, 198]), { fails: false, value: 200, runs: 5 })
})

test('a gain lands as the middle of its runs, unless one of them is as bad as before', async () => {
  assert.deepEqual(await measured([150, 160, 140, 155, 170]), { fails: false, value: 155, runs: 5 })
  assert.deepEqual(await measured([150, 160, 140, 155, 201]), { fails: false, value: 200, runs: 5 })
})

test('a new figure lands as the middle of its runs', async () => {
  assert.deepEqual(await measured([150, 220, 205, 199, 210], []), { fails: true, value: 205, runs: 5 })
})

test('a figure that cannot be measured is left out', async () => {
  const meter = { figure: 'memory', unit: 'a poll', band: 0.1, measure: async () => undefined }
  assert.deepEqual(await measureAll([meter], landed), [])
})
