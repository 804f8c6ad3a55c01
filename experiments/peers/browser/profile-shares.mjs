// Prints what the files of `profile.mjs` say, as tables: `node profile-shares.mjs FOLDER`. Each column is a kind of node, such
// as the viewers, and each value the share of the CPU time of its browsers and scripts.

import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'

const ROWS_MAX = 16

const [folder] = process.argv.slice(2)
if (folder === undefined) {
  process.stderr.write('usage: node profile-shares.mjs FOLDER\n')
  process.exit(1)
}
const names = readdirSync(folder)
printShares('thread', filesOf('-threads.json'), (file) => Object.entries(read(file)))
printShares('function of the page, of the time that it was busy', filesOf('-page.cpuprofile'), (file) => selfTimes(read(file)))

/** The files with this ending, by the kind of node that wrote them. */
function filesOf(ending) {
  const kinds = new Map()
  for (const name of names.filter((name) => name.endsWith(ending))) {
    const kind = name.replace(/(-\d+)+-[a-z.]+$/, '')
    kinds.set(kind, [...(kinds.get(kind) ?? []), name])
  }
  return kinds
}

function read(name) {
  return JSON.parse(readFileSync(path.join(folder, name), 'utf8'))
}

/** The time in each function itself, without what it called and without idle time. */
function selfTimes({ nodes, samples, timeDeltas }) {
  const functions = new Map(nodes.map(({ id, callFrame }) => [id, callFrame.functionName || '(anonymous)']))
  return samples.map((id, i) => [functions.get(id), timeDeltas[i]]).filter(([name]) => name !== '(idle)')
}

function printShares(title, files, valuesOf) {
  const kinds = [...files.keys()].sort()
  const columns = kinds.map((kind) => {
    const sums = new Map()
    for (const [name, value] of files.get(kind).flatMap(valuesOf)) sums.set(name, (sums.get(name) ?? 0) + value)
    const total = [...sums.values()].reduce((sum, value) => sum + value, 0)
    return { of: (name) => (sums.get(name) ?? 0) / Math.max(total, Number.MIN_VALUE), names: [...sums.keys()] }
  })
  const most = (name) => Math.max(...columns.map(({ of }) => of(name)))
  const rows = [...new Set(columns.flatMap(({ names }) => names))].sort((a, b) => most(b) - most(a)).slice(0, ROWS_MAX)
  const lines = [
    [title, ...kinds],
    ['---', ...kinds.map(() => '---:')],
    ...rows.map((name) => [name, ...columns.map(({ of }) => percent(of(name)))]),
  ]
  process.stdout.write(`${lines.map((line) => `| ${line.join(' | ')} |`).join('\n')}\n\n`)
}

function percent(share) {
  return `${(share * 100).toFixed(1)} %`
}
