// Runs the tests of pages in every engine, lets each pair of engines pass pages to each other, and writes
// docs/reference/browsers.md. Two files at a time, then those that measure, one at a time.
//
//   node engines/run.mjs [PART...]      the parts are pairs and the names of engines; without one, all of them
//
// SUBJECTS chooses subjects by a part of their names, and PAIRS pairs; the page keeps the results of the others.

import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { cpus, totalmem } from 'node:os'
import path from 'node:path'
import { run } from 'node:test'
import { spec } from 'node:test/reporters'
import { fileURLToPath } from 'node:url'

import { ENGINES } from '../lib/engines/index.mjs'
import { MEASURING } from '../browser/measuring.mjs'
import { page } from './browsers-page.mjs'
import { SUBJECTS } from './subjects.mjs'

/** A test that waits for an element that an engine never shows must not take the time of all others. */
const FILE_MS = 20 * 60_000
const AT_A_TIME = 2

const repository = fileURLToPath(new URL('../../..', import.meta.url))
const RESULTS = path.join(repository, 'docs/reference/browsers.json')
const PAGE = path.join(repository, 'docs/reference/browsers.md')
process.chdir(path.join(repository, 'tests/interop'))
// A long test that is left out must not count as lacking.
process.env.BROWSER_WHOLE = '1'

const known = ['pairs', ...Object.keys(ENGINES)]
const chosen = process.argv.slice(2).length > 0 ? process.argv.slice(2) : known
const unknown = chosen.find((name) => !known.includes(name))
if (unknown) throw new Error(`cannot run the part ${unknown}: it does not exist; the parts are ${known.join(', ')}`)

for (const name of chosen) {
  const started = performance.now()
  const isPairs = name === 'pairs'
  const newer = isPairs ? await resultsOfPairs() : await resultsOfEngine(ENGINES[name])
  // Read only now: another run may have written its part meanwhile.
  const results = existsSync(RESULTS) ? JSON.parse(readFileSync(RESULTS, 'utf8')) : { engines: {} }
  if (isPairs) results.pairs = { ...merged(results.pairs, newer), ...circumstances(started) }
  else results.engines[name] = { ...withEarlier(newer, results.engines[name]), ...circumstances(started) }
  writeFileSync(RESULTS, `${JSON.stringify(results, null, 1)}\n`)
  writeFileSync(PAGE, page(results))
}

/** When, where, with which code and how long a part ran. */
function circumstances(started) {
  return {
    date: today(),
    seconds: Math.round((performance.now() - started) / 1000),
    machine: `${cpus().length} cores, ${Math.round(totalmem() / 2 ** 30)} GiB, ${process.arch}`,
    commit: execFileSync('git', ['rev-parse', '--short=10', 'HEAD'], { encoding: 'utf8' }).trim(),
  }
}

function today() {
  return new Date().toISOString().slice(0, 10)
}

async function resultsOfPairs() {
  const file = 'engines/pairs.test.mjs'
  return (await resultsOf([file], 1, { engine: 'chromium', names: process.env.PAIRS })).get(file)
}

/** The results of the chosen subjects in an engine. */
async function resultsOfEngine({ name, title, launch, whyMissing }) {
  const why = whyMissing()
  if (why !== null) return { title, version: null, why, subjects: {} }
  const wanted = Object.entries(SUBJECTS).filter(([subject]) => subject.includes(process.env.SUBJECTS ?? ''))
  const files = wanted.flatMap(([, files]) => files)
  const isMeasuring = (file) => MEASURING.includes(file)
  const byFile = new Map([
    ...(await resultsOf(
      files.filter((file) => !isMeasuring(file)),
      AT_A_TIME,
      { engine: name },
    )),
    ...(await resultsOf(files.filter(isMeasuring), 1, { engine: name })),
  ])
  const newer = wanted.map(([subject, files]) => [
    subject,
    { date: today(), tests: files.flatMap((file) => byFile.get(file).tests), notes: files.flatMap((file) => byFile.get(file).notes) },
  ])
  return { title, version: await versionOf(launch), why, subjects: Object.fromEntries(newer) }
}

/** An engine with its newer results, and the earlier ones of subjects that were not chosen, in the order of the table. */
function withEarlier(engine, earlier) {
  const found = { ...earlier?.subjects, ...engine.subjects }
  const subjects = Object.keys(SUBJECTS).filter((subject) => subject in found)
  return { ...engine, subjects: Object.fromEntries(subjects.map((subject) => [subject, found[subject]])) }
}

/** The newer results of tests and notes, and the older ones of others. A note begins with what it is about. */
function merged(older, newer) {
  const about = (note) => note.split(':')[0]
  const ran = newer.tests.filter(({ why }) => !why?.includes('pattern'))
  const keep = (list = [], isNewer) => list.filter((each) => !isNewer(each))
  return {
    tests: [...keep(older?.tests, ({ name }) => ran.some((each) => each.name === name)), ...ran],
    notes: [...keep(older?.notes, (note) => newer.notes.some((each) => about(each) === about(note))), ...newer.notes],
  }
}

async function versionOf(launch) {
  const browser = await launch()
  const context = await browser.newContext()
  const version = browser.version()
  await context.close()
  await browser.close()
  return version
}

/** Runs files in an engine; a failed test makes this process fail. Returns the results and the diagnostics of each file. */
async function resultsOf(files, concurrency, { engine, names = '' }) {
  const byFile = new Map(files.map((file) => [file, { tests: [], notes: [] }]))
  if (files.length === 0) return byFile
  process.env.ENGINE = engine
  const places = files.map((file) => path.resolve(file))
  const of = (/** @type {any} */ { file }) => byFile.get(path.relative('.', file))
  const events = run({ files: places, concurrency, timeout: FILE_MS, testNamePatterns: [names] })
  const record = (result, /** @type {any} */ event) => {
    const { name, nesting, file, skip, details } = event
    // A file that fails is reported once more, as a test with its own name.
    if (nesting > 0 || file === undefined || path.resolve(name) === path.resolve(file)) return
    const why = typeof skip === 'string' ? skip : undefined
    of(event).tests.push({ name, result: skip === undefined ? result : 'lacking', why, ms: Math.round(details.duration_ms) })
  }
  events.on('test:pass', (event) => record('passed', event))
  events.on('test:fail', (event) => {
    process.exitCode = 1
    record('failed', event)
  })
  events.on('test:diagnostic', (event) => {
    const { message, nesting } = event
    if (nesting === 0 && !/^\w+ \d+(?:\.\d+)?$/.test(message)) of(event)?.notes.push(message)
  })
  for await (const text of events.compose(spec)) process.stdout.write(text)
  return byFile
}
