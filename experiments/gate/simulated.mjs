// Figures of swarms and fleets, from the experiments in simulated/.
//
// The simulator is deterministic, so a commit that does not touch the exchange has the same figures to the last byte. One that does may
// change the order of two messages, and with it the whole run. So a figure is the mean over the seeds of the file.

import { execFile } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'

import { round } from './counts.mjs'

const run = promisify(execFile)
const FOLDER = new URL('simulated/', import.meta.url).pathname

/** The band of a sum over all nodes. */
const SUM_BAND = 0.03
/** The band of a figure that a few nodes decide: the seeder, the last leecher. */
const FEW_BAND = 0.1
/** The band of duplicates: they are a fiftieth of the content, and most of them depend on the luck of the last blocks. */
const DUPLICATES_BAND = 0.5

/**
 * @param {string} program
 * @returns {Promise<import('./compare.mjs').Figure[]>}
 */
export async function simulate(program) {
  const files = (await readdir(FOLDER)).filter((file) => file.endsWith('.toml')).sort()
  const folder = await mkdtemp(path.join(tmpdir(), 'watchfire-gate-'))
  try {
    const figures = []
    for (const file of files) figures.push(...(await figuresOf(program, file, folder)))
    return figures
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function figuresOf(program, file, folder) {
  const results = path.join(folder, `${file}.json`)
  await run(program, ['lab', 'run', path.join(FOLDER, file), '--driver', 'simulated', '--folder', folder, '--json', results])
  const { runs } = JSON.parse(await readFile(results, 'utf8'))
  const mean = (of) => round(runs.map(of).reduce((sum, value) => sum + value, 0) / runs.length)
  const name = path.basename(file, '.toml')
  const figure = (what, unit, band, of) => ({ figure: `${name}: ${what}`, unit, value: mean(of), band, compiled: false })
  return [
    figure('copies from the seeder', 'an object', FEW_BAND, copies),
    figure('bytes on the wire', 'a byte of content', SUM_BAND, (one) => sum(one.nodes, 'received_bytes') / needed(one)),
    figure('duplicates', 'a byte of content', DUPLICATES_BAND, (one) => sum(one.nodes, 'duplicate_bytes') / needed(one)),
    figure('messages', 'a leecher', SUM_BAND, (one) => sum(leechers(one), 'messages') / leechers(one).length),
    figure('last completion', 'times the bound', FEW_BAND, last),
  ]
}

const leechers = (one) => one.nodes.filter((node) => node.is_awaited)
const sum = (nodes, field) => nodes.reduce((total, node) => total + node[field], 0)
const needed = (one) => one.object_bytes * leechers(one).length

function copies(one) {
  const seeders = one.nodes.filter((node) => node.is_seeder)
  return sum(seeders, 'content_sent_bytes') / one.object_bytes
}

function last(one) {
  return Math.max(...leechers(one).map((node) => node.finished_at)) / one.bound_seconds
}
