// Measures what one tab does with very many and very large files, and writes docs/browser/tab.md.
//
//   node tab/bench.mjs [--rounds 3] [--only light,zip] [--profiles FOLDER] [--page FILE]
//
// `--profiles` writes a CPU profile of each measure, and prints the functions that take longest.

import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { cpus, loadavg, release, totalmem } from 'node:os'
import { parseArgs } from 'node:util'

import { lightFiles, lightOnSlowProcessor, loadOnSlowProcessor, loadWithLittleMemory, saveZip } from './measures.mjs'

const MEASURES = {
  light: lightFiles,
  zip: saveZip,
  large: loadWithLittleMemory,
  'light-slow': lightOnSlowProcessor,
  arrive: loadOnSlowProcessor,
}

/** The measures, their rounds, and the most that each may be. */
const ROWS = [
  { what: '10,000 files of 1 kB are dropped and lit', of: 'light', value: (r) => r.seconds, text: seconds, most: 5 },
  { what: 'of that, until all are picked', of: 'light', value: (r) => r.picked, text: seconds },
  { what: 'of that, the page’s thread on a processor', of: 'light', value: (r) => r.thread, text: seconds },
  { what: 'a zip of 2,000 files of 2 kB is saved', of: 'zip', value: (r) => r.seconds, text: seconds, most: 3 },
  { what: 'of that, the page’s thread on a processor', of: 'zip', value: (r) => r.thread, text: seconds },
  { what: 'a page of 300 MB loads with a heap limit of 512 MiB', of: 'large', value: (r) => r.seconds, text: seconds },
  { what: 'the largest heap meanwhile, with buffers', of: 'large', value: (r) => r.peak / (1 << 20), text: mebibytes, most: 512 },
  { what: 'the longest task while 10,000 files are lit', of: 'light-slow', value: longest, text: milliseconds, most: 100 },
  { what: 'tasks above 100 ms meanwhile', of: 'light-slow', value: above, text: String },
  { what: 'the longest task while 50 MB arrive', of: 'arrive', value: longest, text: milliseconds, most: 100 },
  { what: 'tasks above 100 ms meanwhile', of: 'arrive', value: above, text: String },
]

const { values: options } = parseArgs({
  options: {
    rounds: { type: 'string', default: '3' },
    only: { type: 'string', default: Object.keys(MEASURES).join(',') },
    profiles: { type: 'string', default: '' },
    page: { type: 'string' },
  },
})
const load = loadavg()[0]
if (options.profiles) mkdirSync(options.profiles, { recursive: true })
const results = {}
for (const name of options.only.split(',')) {
  results[name] = []
  for (let round = 0; round < Number(options.rounds); round++) {
    const { tasks, ...result } = await MEASURES[name]({ profiles: options.profiles })
    results[name].push({ ...result, tasks })
    console.log(name, result, tasks ? `longest tasks: ${tasks.slice(0, 8).map(Math.round).join(', ')} ms` : '')
  }
}
const page = pageOf(ROWS.filter(({ of }) => results[of]))
if (options.page) writeFileSync(options.page, page)
else console.log(page)

function pageOf(rows) {
  const commit = execFileSync('git', ['rev-parse', '--short=8', 'HEAD'], { encoding: 'utf8' }).trim()
  const lines = rows.map(({ what, of, value, text, most }) => {
    const sorted = results[of].map(value).sort((a, b) => a - b)
    const middle = sorted[Math.floor(sorted.length / 2)]
    const target = most === undefined ? ' | ' : `${text(most)} | ${middle <= most ? 'met' : 'missed'}`
    return `| ${what} | ${text(middle)} | ${text(sorted[0])} to ${text(sorted.at(-1))} | ${target} |`
  })
  return `# Very many and very large files in one tab

Measured on ${new Date().toISOString().slice(0, 10)} at commit ${commit}, by \`make bench-tab\`, which renews this page.

Machine: ${cpus().length} cores (${cpus()[0].model.replace(/ Processor$/, '')}), ${(totalmem() / 2 ** 30).toFixed(1)} GiB of memory, Linux ${release()}, load ${load.toFixed(1)} before the run. Each tab is a Chromium process without a GPU, with a profile on disk; blocks pass over direct connections on this machine; rounds: ${options.rounds}.

| figure | median | rounds | at most | |
|---|---:|---:|---:|---|
${lines.join('\n')}

A load above the number of cores makes the seconds on the clock longer, and the tasks too; it hardly changes the seconds on a processor. A task is measured in milliseconds of the page's thread, while the devtools make its processor four times slower. A click waits for the task that runs, so a task above 100 ms is a pause that a person can feel.
`
}

function longest({ tasks }) {
  return tasks[0] ?? 0
}

function above({ tasks }) {
  return tasks.filter((ms) => ms > 100).length
}

function seconds(value) {
  return `${value.toFixed(1)} s`
}

function milliseconds(value) {
  return `${Math.round(value)} ms`
}

function mebibytes(value) {
  return `${Math.round(value)} MiB`
}
