// `make bench-churn`: simulated peers that run the web client's own code join and leave one swarm.

import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { parseArgs } from 'node:util'

import { bundleWeb } from '../../tests/interop/lib/peers/bundle.mjs'
import { playChurn } from '../../tests/interop/lib/peers/churn.mjs'
import { Peers } from '../../tests/interop/lib/peers/peers.mjs'
import { startWatchfire } from '../../tests/interop/lib/server.mjs'
import { aboutThisMachine, cpuSeconds } from '../browser/machine.mjs'
import { printLine, progress } from '../browser/progress.mjs'
import { commit, REPOSITORY, targetLine, writeReport } from '../browser/write.mjs'
import { figuresOf } from './figures.mjs'
import { reportOf, targetsOf } from './report.mjs'

const USUAL = { peers: 200, megabytes: 20, waves: 8, herd: 25, timeout: 1200 }
const QUICK = { ...USUAL, peers: 24, megabytes: 9, waves: 3, herd: 8 }

const USAGE = `make bench-churn ARGS="…"

  --peers N        simulated peers, besides the publisher (${USUAL.peers})
  --megabytes N    size of the page, in millions of bytes (${USUAL.megabytes})
  --waves N        waves in which they join, at least two (${USUAL.waves})
  --herd N         peers in one process (${USUAL.herd})
  --timeout S      the run fails after this time (${USUAL.timeout})
  --quick          ${QUICK.peers} peers, ${QUICK.megabytes} MB: check that everything works
`

const options = read()
if (options !== null) await run(options)

function read() {
  const text = /** @type {const} */ ({ type: 'string' })
  const flag = /** @type {const} */ ({ type: 'boolean', default: false })
  let values
  try {
    ;({ values } = parseArgs({
      options: { peers: text, megabytes: text, waves: text, herd: text, timeout: text, quick: flag, help: flag },
    }))
  } catch (error) {
    return rejectUsage(error.message)
  }
  if (values.help) {
    process.stdout.write(USAGE)
    return null
  }
  const chosen = { ...(values.quick ? QUICK : USUAL) }
  for (const [name, least] of [
    ['peers', 4],
    ['megabytes', 1],
    ['waves', 2],
    ['herd', 1],
    ['timeout', 1],
  ]) {
    if (values[name] !== undefined) chosen[name] = Number(values[name])
    if (!Number.isInteger(chosen[name]) || chosen[name] < least) return rejectUsage(`invalid value for --${name}: ${values[name]}`)
  }
  return chosen
}

function rejectUsage(reason) {
  process.stderr.write(`${reason}\n\n${USAGE}`)
  process.exitCode = 2
  return null
}

async function run(options) {
  const out = path.join(REPOSITORY, 'target/churn')
  const began = Date.now()
  const machine = aboutThisMachine()
  await mkdir(out, { recursive: true })
  const bundle = await bundleWeb(out)
  const server = await startWatchfire({ settings: { 'server.drain_period': '100ms' } })
  const herds = 1 + Math.ceil(options.peers / options.herd)
  const bytes = options.megabytes * 1e6
  let peers = null
  try {
    peers = await Peers.start(bundle, `http://localhost:${server.port}`, herds)
    const before = cpuSeconds([server.pid])
    const played = await playChurn({
      peers,
      server,
      processCount: herds,
      bytes,
      count: options.peers,
      waves: options.waves,
      timeoutMs: options.timeout * 1000,
      onProgress: progress('churn'),
    })
    const cpuServer = cpuSeconds([server.pid]).each[0] - before.each[0]
    const relayedByServer = await server.metric('watchfire_pages_relayed_bytes_total')
    const peersResidentMax = peers.residentMax.slice(1)
    const figures = figuresOf({ ...played, bytes, cpuPeers: peers.cpuSeconds, cpuServer, relayedByServer, peersResidentMax })
    const isWhole = Object.entries(USUAL).every(([name, value]) => name === 'timeout' || options[name] === value)
    const command = process.argv.length > 2 ? `make bench-churn ARGS="${process.argv.slice(2).join(' ')}"` : 'make bench-churn'
    const report = reportOf({
      options,
      machine,
      commit: commit(),
      figures,
      played,
      herds,
      command,
      isWhole,
      seconds: (Date.now() - began) / 1000,
      date: new Date().toISOString().slice(0, 10),
    })
    await writeFile(path.join(out, 'samples.json'), JSON.stringify({ samples: played.samples, here: played.here, past: played.past }))
    await writeReport(report, isWhole ? path.join(REPOSITORY, 'docs/browser') : out)
    for (const target of targetsOf(figures)) printLine(targetLine(target))
    printLine(
      `${figures.stayed} peers stayed and have the whole page after ${figures.seconds.toFixed(1)} s; the publisher sent ${figures.copies.toFixed(2)} copies; ${(figures.directShare * 100).toFixed(1)} % directly`,
    )
  } catch (error) {
    printLine(`cannot run the benchmark: ${error.message}`)
    process.exitCode = 1
  } finally {
    await peers?.end()
    await server.stop()
  }
}
