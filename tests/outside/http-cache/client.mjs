// The client of http-cache-tests, in a process of its own: it prints the cases as JSON. `node client.mjs URL [--slice]`.

import fetch from 'node-fetch'

import { getResults, runTests } from 'http-cache-tests/client/runner.mjs'
import suites from 'http-cache-tests/tests/index.mjs'

/** Requests to the suite's server at a time. */
const TESTS_AT_A_TIME = 20
const SLICE = ['cc-request', 'cc-response', 'conditional-etag', 'partial']

const [base, slice] = process.argv.slice(2)
const chosen = suites.filter(({ id }) => !slice || SLICE.includes(id))
// The suite logs to standard output.
console.log = console.error
await runTests(chosen, fetch, false, base, TESTS_AT_A_TIME)

/** A case that needs a stored answer, and the cache has not stored it: nothing was judged. */
const NOT_STORED = /Response \d+ does not come from cache|should have been conditional/

const results = getResults()
const isPassed = (id) => results[id] === true
/** A case also needs others to pass: how a cache serves stale answers cannot be seen in one that serves none. */
function isJudged({ id, kind, depends_on: needed = [] }) {
  const [cause, found] = isPassed(id) ? [] : (results[id] ?? ['Setup', ''])
  const isSetUp = cause !== 'Setup' || !NOT_STORED.test(found)
  return id in results && kind !== 'check' && isSetUp && needed.every(isPassed)
}

const tests = chosen.flatMap(({ tests }) => tests).filter(isJudged)
const cases = tests.map(({ id, name, kind = 'required' }) => {
  const result = results[id]
  return { name: `${kind}: ${id}`, isPassed: result === true, found: result === true ? '' : `${name}: ${result.join(': ')}` }
})
process.stdout.write(JSON.stringify(cases), () => process.exit(0))
