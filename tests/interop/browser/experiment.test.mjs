// Browsers as nodes of an experiment: the programs of experiments/peers/browser, as `make bench-browser` runs them.

import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

import { newFolder } from '../lib/folders.mjs'
import { run } from '../lib/program.mjs'
import { binary } from '../lib/server.mjs'
import { skipInShortRun } from '../lib/whole.mjs'

const EXPERIMENT = fileURLToPath(new URL('../../../experiments/browser.toml', import.meta.url))
const RUN_MS = 300_000

test('a browser of an experiment gets a file from another one, on a page of Watchfire and over a data channel', {
  skip: skipInShortRun,
}, async (t) => {
  const folder = newFolder(t)
  const json = path.join(folder, 'results.json')
  const trials = ['Watchfire, one viewer', 'raw data channel, one viewer']
  const options = [
    '--driver',
    'processes',
    '--repeat',
    '1',
    '--folder',
    folder,
    '--json',
    json,
    ...trials.flatMap((name) => ['--trial', name]),
  ]
  await run(binary('watchfire'), ['lab', 'run', EXPERIMENT, ...options], { timeout: RUN_MS })
  const { runs } = JSON.parse(await readFile(json, 'utf8'))
  assert.deepEqual(
    runs.map(({ trial }) => trial),
    trials,
  )
  for (const { trial, nodes, measures, object_bytes: bytes } of runs) {
    const publisher = nodes.find(({ name }) => name === 'publisher')
    const viewer = nodes.find(({ name }) => name === 'viewers')
    const copies = publisher.content_sent_bytes / bytes
    assert(copies >= 1 && copies < 1.1, `${trial}: ${copies} copies`)
    assert(viewer.finished_at > 0 && viewer.cpu_seconds > 0.05, `${trial}: ${JSON.stringify(viewer)}`)
    // The script of a browser alone has half of that.
    assert(viewer.peak_memory_bytes > 150e6, `${trial}: ${viewer.peak_memory_bytes} bytes in all processes of the browser`)
    const moved = (name) => measures[`program: content ${name}, copies`] ?? 0
    assert(moved('over direct connections') + moved('by relay') >= 0.99, `${trial}: ${JSON.stringify(measures)}`)
  }
})
