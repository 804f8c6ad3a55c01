// Runs the tests of pages in every engine, lets each pair of engines pass pages to each other, and writes
// docs/reference/browsers.md. One file at a time, because three browsers at once are enough for two processors.
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
import { page } from './browsers-page.mjs'

/** A test that waits for an element that an engine never shows must not take the time of all others. */
const FILE_MS = 20 * 60_000

/** The subjects of the tests in each engine, and the files that test them. */
const SUBJECTS = {
  'The life of a page': ['browser/availability.test.mjs', 'browser/holders.test.mjs'],
  'Folders and kinds of files': ['browser/folders.test.mjs', 'browser/file-types.test.mjs'],
  'Private pages': ['browser/private.test.mjs'],
  'Large pages': ['browser/large-files.test.mjs', 'browser/disk-storage.test.mjs'],
  Streaming: ['browser/streaming.test.mjs', 'browser/saving.test.mjs'],
  Sites: ['browser/sites.test.mjs'],
  Sprites: ['browser/sprites.test.mjs'],
  'Hostile pages': ['browser/sandbox.test.mjs'],
  'DOMPurify’s vectors': ['engines/vectors.test.mjs'],
}

const repository = fileURLToPath(new URL('../../..', import.meta.url))
const RESULTS = path.join(repository, 'docs/reference/browsers.json')
const PAGE = path.join(repository, 'docs/reference/browsers.md')
process.chdir(path.join(repository, 'tests/interop'))

const known = ['pairs', ...Object.keys(ENGINES)]
const chosen = process.argv.slice(2).length > 0 ? process.argv.slice(2) : known
const unknown = chosen.find((name) => !known.includes(name))
if (unknown) throw new Error(`cannot run the part ${unknown}: it does not exist; the parts are ${known.join(', ')}`)

const results = existsSync(RESULTS) ? JSON.parse(readFileSync(RESULTS, 'utf8')) : { engines: {} }
results.machine = `${cpus().length} cores, ${Math.round(totalmem() / 2 ** 30)} GiB, ${process.arch}`
results.commit = execFileSync('git', ['rev-parse', '--short=10', 'HEAD'], { encoding: 'utf8' }).trim()

for (const name of chosen) {
  if (name === 'pairs') {
    results.pairs = merged(results.pairs, await resultsOf(['engines/pairs.test.mjs'], 'chromium', process.env.PAIRS))
  } else {
    const why = ENGINES[name].whyMissing()
    const subjects = why === null ? (results.engines[name]?.subjects ?? {}) : {}
    const wanted = Object.entries(SUBJECTS).filter(([subject]) => subject.includes(process.env.SUBJECTS ?? ''))
    if (why === null) for (const [subject, files] of wanted) subjects[subject] = await resultsOf(files, name)
    results.engines[name] = { title: ENGINES[name].title, version: why === null ? await versionOf(ENGINES[name]) : null, why, subjects }
  }
  writeFileSync(RESULTS, `${JSON.stringify(results, null, 1)}\n`)
  writeFileSync(PAGE, page(results))
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

async function versionOf(engine) {
  const browser = await engine.launch()
  const context = await browser.newContext()
  const version = browser.version()
  await context.close()
  await browser.close()
  return version
}

/** Runs files in an engine; a failed test makes this process fail. Returns the result and the diagnostics of each test. */
async function resultsOf(files, engine, names = '') {
  process.env.ENGINE = engine
  const tests = []
  const notes = []
  const events = run({ files: files.map((file) => path.resolve(file)), concurrency: 1, timeout: FILE_MS, testNamePatterns: [names] })
  const record = (result, /** @type {any} */ { name, nesting, file, skip, details }) => {
    if (nesting > 0 || file === undefined || path.resolve(name) === path.resolve(file)) return
    tests.push({
      name,
      result: skip === undefined ? result : 'skipped',
      why: typeof skip === 'string' ? skip : undefined,
      ms: Math.round(details.duration_ms),
    })
  }
  events.on('test:pass', (event) => record('passed', event))
  events.on('test:fail', (event) => {
    process.exitCode = 1
    record('failed', event)
  })
  events.on('test:diagnostic', ({ message, nesting }) => nesting > 0 || /^\w+ \d+(?:\.\d+)?$/.test(message) || notes.push(message))
  for await (const text of events.compose(spec)) process.stdout.write(text)
  return { tests, notes }
}
