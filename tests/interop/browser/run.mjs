// Runs the tests with browsers: two files at a time, then those that measure, one at a time. Prints the seconds of each file.
//
//   node browser/run.mjs [FILE...]
//
// Each file has a process, and the visitors of a file take turns with its browsers. A new file needs no line here, unless
// another test beside it would spoil its measurements.

import { readdirSync } from 'node:fs'
import path from 'node:path'
import { run } from 'node:test'
import { spec } from 'node:test/reporters'
import { fileURLToPath } from 'node:url'

import { MEASURING } from './measuring.mjs'

const AT_A_TIME = 2
const SLOW_MS = 10_000
/** A file that takes longer fails: a failed test may leave a browser open, which would keep its process alive for ever. */
const FILE_MS = 15 * 60_000

const interop = fileURLToPath(new URL('..', import.meta.url))
process.chdir(interop)

const named = process.argv.slice(2)
const all = readdirSync('browser')
  .filter((name) => name.endsWith('.test.mjs'))
  .map((name) => `browser/${name}`)
const chosen = named.length > 0 ? named : [...all, 'gateway/private-pages.test.mjs', 'tsung/tsung.test.mjs', 'tsung/shop.test.mjs']

const msOf = new Map()
const slow = []
const failed = []
await runFiles(
  chosen.filter((file) => !MEASURING.includes(file)),
  AT_A_TIME,
)
await runFiles(
  chosen.filter((file) => MEASURING.includes(file)),
  1,
)
const rows = [...msOf].sort(([, a], [, b]) => b - a)
for (const [file, ms] of rows) console.log(`${seconds(ms)} s  ${path.relative(interop, file)}`)
if (slow.length > 0) console.log(`\ntests of more than ${SLOW_MS / 1000} s:`)
for (const { name, ms } of slow.sort((a, b) => b.ms - a.ms)) console.log(`${seconds(ms)} s  ${name}`)
// The tables above are long, and the end of a log is read first.
for (const { name, details } of failed) console.error(`\nfailed: ${name}\n${details.error.cause?.stack ?? details.error.message}`)

/** Runs the files and prints their results; a failed test makes this process fail. */
async function runFiles(files, concurrency) {
  if (files.length === 0) return
  const events = run({ files: files.map((file) => path.resolve(file)), concurrency, timeout: FILE_MS })
  for (const event of ['test:pass', 'test:fail']) events.on(event, record)
  events.on('test:fail', (event) => {
    process.exitCode = 1
    failed.push(event)
  })
  const report = events.compose(spec)
  for await (const text of report) process.stdout.write(text)
}

/** Tests of a file run one after another, so their durations add up to that of the file. */
function record({ name, nesting, file, details: { duration_ms: ms } }) {
  // A file that fails is reported once more, as a test with its own name.
  if (nesting > 0 || file === undefined || path.resolve(name) === path.resolve(file)) return
  msOf.set(file, (msOf.get(file) ?? 0) + ms)
  if (ms > SLOW_MS) slow.push({ name, ms })
}

function seconds(ms) {
  return (ms / 1000).toFixed(1).padStart(6)
}
