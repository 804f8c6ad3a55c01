// `make bench-browser`: one publisher and many viewers, with real browsers and a real server.

import { rm, writeFile } from 'node:fs/promises'
import { loadavg } from 'node:os'
import path from 'node:path'
import { parseArgs } from 'node:util'

import { Crowd, makeFile } from './crowd.mjs'
import { boundOf, figuresOf, median } from './figures.mjs'
import { aboutThisMachine } from './machine.mjs'
import { printLine, progress } from './progress.mjs'
import { reportOf, targetsOf } from './report.mjs'
import { commit, REPOSITORY, targetLine, writeReport } from './write.mjs'

const USUAL = { viewers: 10, bytes: 50_000_000 }

const USAGE = `make bench-browser ARGS="…"

  --viewers N      viewers that open the page (${USUAL.viewers})
  --megabytes N    size of the page, in millions of bytes (${USUAL.bytes / 1e6})
  --rounds N       rounds (3)
  --apart SECONDS  between the arrivals of two viewers (0: all at once)
  --uplink MB      by relay only, this many million bytes per second for each peer; otherwise directly, without a limit
  --timeout S      a round fails after this time (600)
  --quick          3 viewers, 12 MB, one round: check that everything works
`

const options = read()
if (options !== null) await run(options)

function read() {
  const number = /** @type {const} */ ({ type: 'string' })
  const flag = /** @type {const} */ ({ type: 'boolean', default: false })
  let values
  try {
    ;({ values } = parseArgs({
      options: {
        viewers: number,
        megabytes: number,
        rounds: number,
        apart: number,
        uplink: number,
        timeout: number,
        quick: flag,
        help: flag,
      },
    }))
  } catch (error) {
    return rejectUsage(error.message)
  }
  if (values.help) {
    process.stdout.write(USAGE)
    return null
  }
  const usual = values.quick
    ? { viewers: '3', megabytes: '12', rounds: '1' }
    : { viewers: String(USUAL.viewers), megabytes: String(USUAL.bytes / 1e6), rounds: '3' }
  const chosen = { apart: '0', timeout: '600', ...usual, ...values }
  for (const { name, least, isWhole = false } of [
    { name: 'viewers', least: 1, isWhole: true },
    { name: 'megabytes', least: 0.001 },
    { name: 'rounds', least: 1, isWhole: true },
    { name: 'apart', least: 0 },
    { name: 'timeout', least: 1 },
    { name: 'uplink', least: 0.01 },
  ]) {
    if (chosen[name] === undefined) continue
    const value = Number(chosen[name])
    if (!Number.isFinite(value) || value < least || (isWhole && !Number.isInteger(value)))
      return rejectUsage(`invalid value for --${name}: ${chosen[name]}`)
  }
  return {
    viewers: Number(chosen.viewers),
    bytes: Math.round(Number(chosen.megabytes) * 1e6),
    rounds: Number(chosen.rounds),
    apartMs: Number(chosen.apart) * 1000,
    timeoutMs: Number(chosen.timeout) * 1000,
    uplink: chosen.uplink === undefined ? null : Math.round(Number(chosen.uplink) * 1e6),
  }
}

function rejectUsage(reason) {
  process.stderr.write(`${reason}\n\n${USAGE}`)
  process.exitCode = 2
  return null
}

async function run(options) {
  const { viewers, bytes, uplink } = options
  const out = path.join(REPOSITORY, 'target/browser')
  const began = Date.now()
  const machine = aboutThisMachine()
  const file = await makeFile(out, bytes)
  let crowd = null
  try {
    crowd = await Crowd.launch(viewers + 1, options, progress('browsers'))
    const play = async (name, of) => {
      const [loadBefore] = loadavg()
      const round = await crowd.round({ ...options, file, viewers: of }, progress(name))
      return { round, figures: { ...figuresOf(round, bytes), loadBefore } }
    }
    const pair = await play('one viewer alone', 1)
    const played = []
    for (let i = 0; i < options.rounds; i++) {
      played.push(await play(`round ${i + 1} of ${options.rounds}`, viewers))
      const { copies, lastDone, directShare } = played.at(-1).figures
      printLine(
        `round ${i + 1}: ${copies.toFixed(2)} copies, ${(directShare * 100).toFixed(1)} % directly, last byte after ${lastDone.toFixed(1)} s`,
      )
    }
    const rounds = played.map(({ figures }) => figures)
    const bound = boundOf({ viewers, fileBytes: bytes, uplink, cores: machine.cores, pairCpuSeconds: pair.figures.cpuSeconds })
    const isWhole = viewers === USUAL.viewers && bytes === USUAL.bytes && options.rounds >= 3 && options.apartMs === 0 && uplink === null
    const command = process.argv.length > 2 ? `make bench-browser ARGS="${process.argv.slice(2).join(' ')}"` : 'make bench-browser'
    const middle = played.find(({ figures }) => figures.lastDone === median(rounds.map(({ lastDone }) => lastDone))) ?? played[0]
    const report = reportOf({
      options,
      machine,
      commit: commit(),
      bound,
      pair: pair.figures,
      rounds,
      round: middle.round,
      command,
      isWhole,
      seconds: (Date.now() - began) / 1000,
      date: new Date().toISOString().slice(0, 10),
    })
    await writeFile(path.join(out, 'rounds.json'), JSON.stringify(played.map(({ round }) => round)))
    await writeReport(report, isWhole ? path.join(REPOSITORY, 'docs/browser') : out)
    for (const target of targetsOf(rounds)) printLine(targetLine(target))
    printLine(
      `last byte after ${median(rounds.map(({ lastDone }) => lastDone)).toFixed(1)} s, the bound (${bound.kind}) is ${bound.seconds.toFixed(1)} s`,
    )
  } catch (error) {
    printLine(`cannot run the benchmark: ${error.message}`)
    process.exitCode = 1
  } finally {
    await crowd?.close()
    await rm(file)
  }
}
