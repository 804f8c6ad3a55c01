// `make bench-churn`: simulated peers that run the web client's own code, in one swarm, while people come and go.

import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { parseArgs } from 'node:util'

import { bundleWeb } from '../../tests/interop/lib/peers/bundle.mjs'
import { playChurn } from '../../tests/interop/lib/peers/churn.mjs'
import { Peers } from '../../tests/interop/lib/peers/peers.mjs'
import { startWatchfire } from '../../tests/interop/lib/server.mjs'
import { aboutThisMachine, cpuSeconds } from '../browser/machine.mjs'
import { progress, say } from '../browser/progress.mjs'
import { commit, REPOSITORY, targetLine, writeReport } from '../browser/write.mjs'
import { figuresOf } from './figures.mjs'
import { reportOf, targetsOf } from './report.mjs'

const USUAL = { peers: 200, megabytes: 20, waves: 8, herd: 25, timeout: 1200 }
const QUICK = { ...USUAL, peers: 24, megabytes: 9, waves: 3, herd: 8 }

const USAGE = `make bench-churn ARGS="…"

  --peers N        simulated peers beside the one who publishes (${USUAL.peers})
  --megabytes N    the page, in millions of bytes (${USUAL.megabytes})
  --waves N        waves in which they come, at least two (${USUAL.waves})
  --herd N         peers in one process (${USUAL.herd})
  --timeout S      it takes no longer (${USUAL.timeout})
  --quick          ${QUICK.peers} peers, ${QUICK.megabytes} MB: whether all of it works
`

const options = read()
if (options !== null) await run(options)

function read() {
  const text = { type: 'string' }
  const flag = { type: 'boolean', default: false }
  let values
  try {
    ;({ values } = parseArgs({ options: { peers: text, megabytes: text, waves: text, herd: text, timeout: text, quick: flag, help: flag } }))
  } catch (error) {
    return refuse(error.message)
  }
  if (values.help) {
    process.stdout.write(USAGE)
    return null
  }
  const told = { ...(values.quick ? QUICK : USUAL) }
  for (const [name, least] of [['peers', 4], ['megabytes', 1], ['waves', 2], ['herd', 1], ['timeout', 1]]) {
    if (values[name] !== undefined) told[name] = Number(values[name])
    if (!Number.isInteger(told[name]) || told[name] < least) return refuse(`--${name} ${values[name]} makes no sense`)
  }
  return told
}

function refuse(why) {
  process.stderr.write(`${why}\n\n${USAGE}`)
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
      peers, server, processCount: herds, bytes, count: options.peers, waves: options.waves, timeoutMs: options.timeout * 1000, onProgress: progress('churn'),
    })
    const cpuServer = cpuSeconds([server.pid]).each[0] - before.each[0]
    const relayedByServer = await server.metric('watchfire_pages_relayed_bytes_total')
    const residentPeersMost = peers.residentMost.slice(1)
    const figures = figuresOf({ ...played, bytes, cpuPeers: peers.cpuSeconds, cpuServer, relayedByServer, residentPeersMost })
    const isWhole = Object.entries(USUAL).every(([name, value]) => name === 'timeout' || options[name] === value)
    const command = process.argv.length > 2 ? `make bench-churn ARGS="${process.argv.slice(2).join(' ')}"` : 'make bench-churn'
    const report = reportOf({
      options, machine, commit: commit(), figures, played, herds, command, isWhole,
      seconds: (Date.now() - began) / 1000, date: new Date().toISOString().slice(0, 10),
    })
    await writeFile(path.join(out, 'samples.json'), JSON.stringify({ samples: played.samples, here: played.here, past: played.past }))
    await writeReport(report, isWhole ? path.join(REPOSITORY, 'docs/browser') : out)
    for (const target of targetsOf(figures)) say(targetLine(target))
    say(`${figures.stayed} stayed and have all of it after ${figures.seconds.toFixed(1)} s; ${figures.copies.toFixed(2)} copies of the publisher's, ${(figures.directShare * 100).toFixed(1)} % directly`)
  } catch (error) {
    say(`it did not run: ${error.message}`)
    process.exitCode = 1
  } finally {
    await peers?.end()
    await server.stop()
  }
}
