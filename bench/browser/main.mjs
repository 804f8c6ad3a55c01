// `make bench-browser`: one who publishes, many who come, real browsers, a real server.

import { rm, writeFile } from 'node:fs/promises'
import { loadavg } from 'node:os'
import path from 'node:path'
import { parseArgs } from 'node:util'

import { Crowd, makeFile } from './crowd.mjs'
import { boundOf, figuresOf, median } from './figures.mjs'
import { aboutThisMachine } from './machine.mjs'
import { progress, say } from './progress.mjs'
import { reportOf, targetsOf } from './report.mjs'
import { commit, REPOSITORY, targetLine, writeReport } from './write.mjs'

const USUAL = { viewers: 10, bytes: 50_000_000 }

const USAGE = `make bench-browser ARGS="…"

  --viewers N      people who come for the page (${USUAL.viewers})
  --megabytes N    the page, in millions of bytes (${USUAL.bytes / 1e6})
  --rounds N       rounds (3)
  --apart SECONDS  between two viewers' arrivals (0: all at once)
  --uplink MB      by relay alone, so many million bytes a second of each; else directly, as fast as it goes
  --timeout S      a round takes no longer (600)
  --quick          3 viewers, 12 MB, one round: whether all of it works
`

const options = read()
if (options !== null) await run(options)

function read() {
  const number = { type: 'string' }
  const flag = { type: 'boolean', default: false }
  let values
  try {
    ;({ values } = parseArgs({
      options: { viewers: number, megabytes: number, rounds: number, apart: number, uplink: number, timeout: number, quick: flag, help: flag },
    }))
  } catch (error) {
    return refuse(error.message)
  }
  if (values.help) {
    process.stdout.write(USAGE)
    return null
  }
  const usual = values.quick ? { viewers: '3', megabytes: '12', rounds: '1' } : { viewers: String(USUAL.viewers), megabytes: String(USUAL.bytes / 1e6), rounds: '3' }
  const told = { apart: '0', timeout: '600', ...usual, ...values }
  for (const [name, least, whole] of [['viewers', 1, true], ['megabytes', 0.001, false], ['rounds', 1, true], ['apart', 0, false], ['timeout', 1, false], ['uplink', 0.01, false]]) {
    if (told[name] === undefined) continue
    const value = Number(told[name])
    if (!Number.isFinite(value) || value < least || (whole && !Number.isInteger(value))) return refuse(`--${name} ${told[name]} makes no sense`)
  }
  return {
    viewers: Number(told.viewers), bytes: Math.round(Number(told.megabytes) * 1e6), rounds: Number(told.rounds),
    apartMs: Number(told.apart) * 1000, timeoutMs: Number(told.timeout) * 1000,
    uplink: told.uplink === undefined ? null : Math.round(Number(told.uplink) * 1e6),
  }
}

function refuse(why) {
  process.stderr.write(`${why}\n\n${USAGE}`)
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
    crowd = await Crowd.gather(viewers + 1, options, progress('browsers'))
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
      say(`round ${i + 1}: ${copies.toFixed(2)} copies, ${(directShare * 100).toFixed(1)} % directly, the last byte after ${lastDone.toFixed(1)} s`)
    }
    const rounds = played.map(({ figures }) => figures)
    const bound = boundOf({ viewers, fileBytes: bytes, uplink, cores: machine.cores, pairCpuSeconds: pair.figures.cpuSeconds })
    const isWhole = viewers === USUAL.viewers && bytes === USUAL.bytes && options.rounds >= 3 && options.apartMs === 0 && uplink === null
    const command = process.argv.length > 2 ? `make bench-browser ARGS="${process.argv.slice(2).join(' ')}"` : 'make bench-browser'
    const middle = played.find(({ figures }) => figures.lastDone === median(rounds.map(({ lastDone }) => lastDone))) ?? played[0]
    const report = reportOf({
      options, machine, commit: commit(), bound, pair: pair.figures, rounds, round: middle.round, command, isWhole,
      seconds: (Date.now() - began) / 1000, date: new Date().toISOString().slice(0, 10),
    })
    await writeFile(path.join(out, 'rounds.json'), JSON.stringify(played.map(({ round }) => round)))
    await writeReport(report, isWhole ? path.join(REPOSITORY, 'docs/browser') : out)
    for (const target of targetsOf(rounds)) say(targetLine(target))
    say(`the last byte after ${median(rounds.map(({ lastDone }) => lastDone)).toFixed(1)} s, the bound (${bound.kind}) is ${bound.seconds.toFixed(1)} s`)
  } catch (error) {
    say(`it did not run: ${error.message}`)
    process.exitCode = 1
  } finally {
    await crowd?.part()
    await rm(file)
  }
}
