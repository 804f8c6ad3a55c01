// The gate: counts what the program does, and compares with the values that landed.
//
//   node experiments/gate/gate.mjs [--accept] [--only WORKLOAD,...] [--json FILE]
//
// `make gate` builds the two programs and runs this; docs/contributing/gate.md has the figures. With --accept it rewrites gate.json, also
// when nothing is worse. With --only it counts some workloads, and nothing in the simulator or at a server.

import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

import { accepted, compare, fails, isNoise, number, percent, table } from './compare.mjs'
import { WORKLOAD_NAMES, countWork } from './counts.mjs'
import { measureAll } from './measured.mjs'
import { carry } from './path.mjs'
import { SERVER_METERS } from './server.mjs'
import { simulate } from './simulated.mjs'
import { THROW_METERS } from './throws.mjs'

process.chdir(fileURLToPath(new URL('../..', import.meta.url)))
const VALUES = 'experiments/gate.json'
/** Commits that are listed below a figure that is worse. */
const COMMITS_SHOWN = 20
const TARGET = process.env.CARGO_TARGET_DIR || 'target'
const PROFILE = process.env.INTEROP_PROFILE || 'dev'
/** Elsewhere, some figures may not be possible to count. */
const isCi = Boolean(process.env.CI)
const PROGRAM = path.resolve(TARGET, PROFILE === 'dev' ? 'debug' : PROFILE, 'watchfire')

const { values: options } = parseArgs({
  options: { accept: { type: 'boolean' }, only: { type: 'string', default: '' }, json: { type: 'string' } },
})
const only = options.only.split(',').filter(Boolean)
const unknown = only.filter((name) => !WORKLOAD_NAMES.includes(name))
if (unknown.length > 0) {
  console.error(`cannot count ${unknown.join(', ')}: no such workload; choose from ${WORKLOAD_NAMES.join(', ')}`)
  process.exit(1)
}
const missing = ['valgrind', 'strace'].filter((program) => spawnSync(program, ['--version']).error)
if (missing.length > 0 && !isCi && !options.accept) {
  console.log(`NOT TESTED: the gate: ${missing.join(' and ')} not installed`)
  process.exit()
}
const builder = readBuilder()
const saved = existsSync(VALUES) ? JSON.parse(readFileSync(VALUES, 'utf8')) : { builder, figures: [] }
const isSameBuilder = JSON.stringify(saved.builder) === JSON.stringify(builder)

const WORK = path.join(TARGET, 'gate/watchfire-gate')
const counted = await countWork(WORK, only)
if (only.length === 0) {
  counted.push(...carry(WORK))
  counted.push(...(await simulate(PROGRAM)))
  counted.push(...(await measureAll([...SERVER_METERS, ...THROW_METERS], saved.figures)))
}
const isChosen = ({ figure }) => only.length === 0 || only.some((name) => figure.startsWith(`${name}: `))
const rows = compare(saved.figures.filter(isChosen), counted)

console.log(table(rows))
if (options.json) writeFileSync(options.json, `${JSON.stringify(rows, null, 2)}\n`)
if (options.accept) accept()
else process.exitCode = report()

/** Explains what differs, and returns the exit code. */
function report() {
  // Another compiler makes other code, so its counts say nothing about a commit. The simulator's do.
  if (!isSameBuilder) {
    console.log(`\nThe landed counts are from ${describe(saved.builder)}. This is ${describe(builder)}.`)
    console.log(
      'So instructions, allocations and bytes kept are shown and not judged. `make gate-accept` makes this the builder to compare with.',
    )
  }
  const beyond = rows.filter((row) => fails(row, { isSameBuilder, isCi }))
  for (const row of beyond) console.error(`\n${explain(row)}`)
  if (beyond.length === 0) return 0
  const isWorse = beyond.some(({ verdict }) => verdict === 'WORSE')
  console.error(
    isWorse
      ? '\nThe gate refuses this change. Make it cheaper, or run `make gate-accept` and commit experiments/gate.json with the reason.'
      : '\nNothing is worse. Run `make gate-accept` and commit experiments/gate.json, so that the gain is kept.',
  )
  return 1
}

/** @param {import('./compare.mjs').Row} row */
function explain({ figure, unit, landed, value, change, band, verdict, runs }) {
  if (verdict === 'new') return `${figure}: ${number(value)} for ${unit} is a new figure`
  if (verdict === 'gone') return `${figure}: no longer counted`
  const median = runs ? ` (the middle of ${runs.map(number).join(', ')})` : ''
  const values = `${number(landed)} landed, ${number(value)} now${median}, ${percent(change)} for ${unit}`
  return `${figure} is ${verdict === 'WORSE' ? 'worse' : 'better'}: ${values}; the band is ${(band * 100).toFixed(0)} %\n${commitsSince(figure)}`
}

/** The commits since the one that set a value. Git knows it by the line of the file, so that a rebase does not make it wrong. */
function commitsSince(figure) {
  const lines = readFileSync(VALUES, 'utf8').split('\n')
  const line = lines.findIndex((text) => text.includes(JSON.stringify(figure))) + 1
  try {
    const blamed = git('blame', '--porcelain', '-L', `${line},${line}`, '--', VALUES)
    const since = blamed.slice(0, 40)
    if (/^0+$/.test(since)) return '  the value is not committed yet'
    const range = `${since.slice(0, 10)}..HEAD`
    const commits = git('log', '--format=%h %s', range, '--', 'crates', 'Cargo.toml', 'Cargo.lock', 'experiments/gate')
      .split('\n')
      .filter(Boolean)
    const more = commits.length > COMMITS_SHOWN ? [`and ${commits.length - COMMITS_SHOWN} more`] : []
    const changed = git('status', '--porcelain', '--', 'crates', 'Cargo.lock') ? ['changes that are not committed'] : []
    return [`since ${git('log', '-1', '--format=%h %s', since)} (${range}):`, ...changed, ...commits.slice(0, COMMITS_SHOWN), ...more]
      .map((text, at) => `${at === 0 ? '  ' : '    '}${text}`)
      .join('\n')
  } catch (error) {
    return `  the commit that set it is unknown: ${error.message.split('\n')[0]}`
  }
}

function accept() {
  const figures = [...saved.figures.filter((figure) => !isChosen(figure)), ...accepted(rows, !isSameBuilder)]
  figures.sort((a, b) => (a.figure < b.figure ? -1 : 1))
  // A line for each figure, so that git knows which commit set it.
  const lines = figures.map((figure) => `    ${JSON.stringify(figure)}`).join(',\n')
  writeFileSync(VALUES, `{\n  "builder": ${JSON.stringify(builder)},\n  "figures": [\n${lines}\n  ]\n}\n`)
  const changed = rows.filter((row) => row.verdict !== 'same' && !isNoise(row)).length
  for (const { figure, landed, runs } of rows.filter(isNoise)) {
    console.log(`\n${figure} keeps ${number(landed)}: the gain is within the noise of its runs, ${runs.map(number).join(', ')}`)
  }
  console.log(`\nWrote ${VALUES}: ${changed} of ${rows.length} figures were new or beyond their bands. Commit it with the reason.`)
}

/** The compiler, the C library and valgrind: each of them changes the number of instructions. */
function readBuilder() {
  const rustc = run(process.env.RUSTC || 'rustc', '-vV')
  const field = (name) => rustc.match(new RegExp(`^${name}: (.*)$`, 'm'))[1]
  return {
    rustc: field('release'),
    host: field('host'),
    libc: run('getconf', 'GNU_LIBC_VERSION'),
    valgrind: run('valgrind', '--version').replace('valgrind-', ''),
  }
}

function describe({ rustc, host, libc, valgrind }) {
  return `rustc ${rustc} for ${host}, ${libc}, valgrind ${valgrind}`
}

function git(...args) {
  return run('git', ...args)
}

function run(command, ...args) {
  return execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }).trim()
}
