// docs/reference/browsers.md is what the last `make test-engines` wrote, and its subjects still exist.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import test from 'node:test'

import { page } from '../interop/engines/browsers-page.mjs'
import { SUBJECTS } from '../interop/engines/subjects.mjs'

const REFERENCE = new URL('../../docs/reference/', import.meta.url)
/** @param {string} name */
const read = (name) => readFileSync(new URL(name, REFERENCE), 'utf8')
const results = JSON.parse(read('browsers.json'))

test('the page has the results of the last run', () => {
  assert.equal(read('browsers.md'), page(results), 'run `make test-engines`, which writes the page')
})

test('each subject has its tests, and each pair passed', () => {
  for (const { title, subjects } of Object.values(results.engines)) {
    const gone = Object.keys(subjects).filter((subject) => !(subject in SUBJECTS))
    assert.deepEqual(gone, [], `${title} has results of a subject without tests: run \`make test-engines\``)
  }
  assert.equal(results.pairs.tests.filter(({ result }) => result === 'passed').length, 6)
})
