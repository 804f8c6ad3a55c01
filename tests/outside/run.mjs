// Runs the suites of others: `node run.mjs [--slice] [suite ...]`. docs/reference/outside.md has the results.

import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, tmpdir, totalmem } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

import { withTimeout } from '../interop/lib/deadlines.mjs'
import { judge } from './lib/judgement.mjs'
import { page } from './lib/page.mjs'
import { REPOSITORY, Skip } from './lib/tools.mjs'

/** All suites, in the order of the page. */
const SUITES = ['autobahn', 'oci', 'openapi', 'http-cache', 'wycheproof', 'tls', 'slow', 'clients', 'bitswap', 'webrtc']
/** Suites that `cargo test` runs too. */
const NOT_IN_SLICE = ['wycheproof']
const PART_MS = 10 * 60_000
/** All suites together, with what they install. */
const RUN_MS = 20 * 60_000
const RESULTS = path.join(REPOSITORY, 'docs/reference/outside.json')
const PAGE = path.join(REPOSITORY, 'docs/reference/outside.md')

const isSlice = process.argv.includes('--slice')
/** The suites of a slice wait longer than they compute. Whole suites run alone, because the page shows their times. */
const AT_A_TIME = isSlice ? 2 : 1
const chosen = process.argv.slice(2).filter((argument) => !argument.startsWith('--'))
const unknown = chosen.find((name) => !SUITES.includes(name))
if (unknown) throw new Error(`cannot run the suite ${unknown}: it does not exist; the suites are ${SUITES.join(', ')}`)

const machine = `${cpus().length} cores, ${Math.round(totalmem() / 2 ** 30)} GiB, ${process.arch}`
const git = (...args) => execFileSync('git', args, { cwd: REPOSITORY, encoding: 'utf8' }).trim()

const startedRun = performance.now()

/** The time for a part. A run that takes longer than all suites may is an error. */
function msFor(what) {
  const left = RUN_MS - (performance.now() - startedRun)
  if (left <= 0)
    throw new Error(`cannot run ${what}: the run has taken ${RUN_MS / 60_000} minutes already; SUITES=... runs only some suites`)
  return Math.min(PART_MS, left)
}

const secondsSince = (started) => Math.round((performance.now() - started) / 1000)

/** The results of one suite. A part that throws a `Skip` is skipped; any other error ends the run. */
async function judged(name) {
  const { suite } = await import(`./${name}/suite.mjs`)
  const sentences = JSON.parse(readFileSync(fileURLToPath(new URL(`${name}/sentences.json`, import.meta.url)), 'utf8'))
  const started = performance.now()
  const parts = []
  for (const part of suite.parts.filter(({ isInSlice = true }) => !isSlice || isInSlice)) {
    const startedPart = performance.now()
    const scratch = mkdtempSync(path.join(tmpdir(), `outside-${name}-`))
    try {
      const what = `${suite.title}, ${part.judged}`
      const { version, cases } = await withTimeout(part.run({ isSlice, scratch }), what, msFor(what))
      parts.push({
        judged: part.judged,
        version,
        seconds: secondsSince(startedPart),
        judgement: judge(cases, sentences[part.judged] ?? {}),
      })
    } catch (error) {
      if (!(error instanceof Skip)) throw error
      parts.push({ judged: part.judged, skipped: `${error.message}.` })
    } finally {
      rmSync(scratch, { recursive: true, force: true })
    }
  }
  return {
    name,
    title: suite.title,
    about: suite.about,
    parts,
    seconds: secondsSince(started),
    machine,
    commit: git('rev-parse', '--short=10', 'HEAD'),
  }
}

/** Shows a result; true if each case passed or has a sentence. */
function report({ title, parts }) {
  for (const { judged, skipped, version, seconds, judgement } of parts) {
    if (skipped) {
      console.log(`skipped: ${title}, ${judged}: ${skipped}`)
      continue
    }
    console.log(
      `${title} ${version}, ${judged}: ${judgement.passed} of ${judgement.count} cases passed, ${judgement.unexplained.length} not explained (${seconds} s)`,
    )
    for (const { name, found } of judgement.unexplained) console.log(`  not explained: ${name}\n    ${found.replaceAll('\n', '\n    ')}`)
    if (!isSlice) for (const pattern of judgement.unused) console.log(`  no case needs the sentence of ${pattern} any more: remove it`)
  }
  return parts.every(({ skipped, judgement }) => skipped || judgement.unexplained.length === 0)
}

const known = existsSync(RESULTS) ? JSON.parse(readFileSync(RESULTS, 'utf8')) : []
let isGood = true
const all = SUITES.filter((name) => !isSlice || !NOT_IN_SLICE.includes(name))
const waiting = chosen.length > 0 ? [...chosen] : all
const ends = await Promise.allSettled(Array.from({ length: AT_A_TIME }, work))
for (const end of ends) if (end.status === 'rejected') throw end.reason
process.exit(isGood ? 0 : 1)

/** Runs one suite after another, until none waits or one ends with an error. */
async function work() {
  for (let name = waiting.shift(); name; name = waiting.shift()) {
    let result
    try {
      result = await judged(name)
    } catch (error) {
      waiting.length = 0
      throw error
    }
    isGood = report(result) && isGood
    if (isSlice) continue
    known.splice(
      0,
      known.length,
      ...SUITES.map((suite) => (suite === name ? result : known.find((old) => old.name === suite))).filter(Boolean),
    )
    writeFileSync(RESULTS, `${JSON.stringify(known, null, 1)}\n`)
    writeFileSync(PAGE, page(known))
  }
}
