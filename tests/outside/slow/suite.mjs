// slowhttptest, which holds many connections open with requests that never end.

import { readFileSync } from 'node:fs'
import path from 'node:path'

import { startWatchfire } from '../../interop/lib/server.mjs'
import { debianVersion, needs, runOrFail } from '../lib/tools.mjs'

const CONNECTIONS = 400
const SECONDS = 20
const SECONDS_OF_SLICE = 3
/** The server must answer another client within this time. */
const PROBE_SECONDS = 3

const KINDS = [
  { judged: 'slow heads', args: ['-H', '-i', '2', '-x', '24'], target: '/' },
  { judged: 'slow bodies', args: ['-B', '-i', '2', '-s', '8192', '-x', '10'], target: '/api/publish' },
  { judged: 'slow reads', args: ['-X', '-w', '512', '-y', '1024', '-n', '2', '-z', '32', '-k', '3'], target: '/' },
  { judged: 'many ranges', args: ['-R', '-a', '10', '-b', '3000', '-t', 'HEAD'], target: '/' },
]

export const suite = {
  title: 'slowhttptest',
  about:
    `slowhttptest opens ${CONNECTIONS} connections, and sends or reads a few bytes on each of them every two seconds. A case is a second ` +
    `of the attack: it has passed if the server answered another client within ${PROBE_SECONDS} seconds.`,
  parts: KINDS.map(({ judged, args, target }) => ({ judged, run: (options) => attack(args, target, options) })),
}

async function attack(args, target, { isSlice, scratch }) {
  const slowhttptest = needs('slowhttptest')
  const server = await startWatchfire()
  try {
    const seconds = isSlice ? SECONDS_OF_SLICE : SECONDS
    const report = path.join(scratch, 'report')
    const bounds = ['-c', String(CONNECTIONS), '-r', '200', '-l', String(seconds), '-p', String(PROBE_SECONDS), '-u', server.http(target)]
    await runOrFail(slowhttptest, [...args, ...bounds, '-g', '-o', report, '-v', '0'], { ms: (seconds + 60) * 1000 })
    return { version: debianVersion('slowhttptest'), cases: casesOf(readFileSync(`${report}.csv`, 'utf8')) }
  } finally {
    await server.stop()
  }
}

/** The lines have a second, connections by their state, and at the end how many of the server's probes were answered. */
function casesOf(csv) {
  const [head, ...lines] = csv
    .trim()
    .split('\n')
    .map((line) => line.split(',').map((cell) => cell.trim().replaceAll('"', '')))
  const available = head.findIndex((name) => /service available/i.test(name))
  return lines.map((cells) => ({ name: `second ${cells[0]}`, isPassed: Number(cells[available]) > 0, found: cells.join(', ') }))
}
