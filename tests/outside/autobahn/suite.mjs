// Autobahn, which tests implementations of RFC 6455 with some hundred cases.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { WebSocket } from 'ws'

import { waitUntil, withTimeout } from '../../interop/lib/deadlines.mjs'
import { listeningPorts } from '../../interop/lib/listening-ports.mjs'
import { binary, start } from '../../interop/lib/server.mjs'
import { python, runOrFail } from '../lib/tools.mjs'

const PACKAGE = 'autobahntestsuite==25.10.1'
/** Compression: Watchfire has none, and refuses to negotiate it. */
const EXCLUDED = ['12.*', '13.*']
const SLICE = ['1.*', '2.*', '3.*', '4.*', '5.*', '6.*', '7.*', '10.*']
const RUN_MS = 8 * 60_000

export const suite = {
  title: 'Autobahn',
  about:
    'Autobahn tests implementations of RFC 6455: framing, pings, reserved bits, opcodes, fragments, UTF-8, closing and sizes. ' +
    'The cases 12 and 13, which test compression, are not run: neither the event loops nor `watchfire load` have compression, and ' +
    'they do not negotiate it. For the suite the users of `watchfire load` send every message back.',
  parts: [
    { judged: 'the server', run: judgeServer },
    { judged: 'watchfire load', run: judgeLoad, isInSlice: false },
  ],
}

/** The suite's client against an echo program on the event loops of `crates/sockets`. */
async function judgeServer({ isSlice, scratch }) {
  const programs = await python([PACKAGE], { version: '2' })
  const echo = await start(binary('examples/echo'), ['0'], /^echo listens on ws:\/\/127\.0\.0\.1:(\d+)$/)
  try {
    const reports = path.join(scratch, 'reports')
    const settings = path.join(scratch, 'fuzzingclient.json')
    writeFileSync(
      settings,
      JSON.stringify({
        outdir: reports,
        servers: [{ agent: 'watchfire', url: `ws://127.0.0.1:${echo.port}` }],
        cases: isSlice ? SLICE : ['*'],
        'exclude-cases': EXCLUDED,
        'exclude-agent-cases': {},
      }),
    )
    await runOrFail(path.join(programs, 'wstest'), ['--mode', 'fuzzingclient', '--spec', settings], { ms: RUN_MS, cwd: scratch })
    return { version: PACKAGE.split('==')[1], cases: casesOf(reports) }
  } finally {
    echo.kill()
  }
}

/** Cases that begin in a second. */
const CASES_PER_SECOND = 10
const LOAD = 'watchfire'

/** The suite's server and users of `watchfire load`, each for one case. */
async function judgeLoad({ scratch }) {
  const programs = await python([PACKAGE], { version: '2' })
  const reports = path.join(scratch, 'reports')
  // The suite's server does not tell its port when the system chooses it.
  const url = `ws://127.0.0.1:${(await listeningPorts(1))[0]}`
  const settings = path.join(scratch, 'fuzzingserver.json')
  writeFileSync(settings, JSON.stringify({ url, outdir: reports, cases: ['*'], 'exclude-cases': EXCLUDED, 'exclude-agent-cases': {} }))
  const args = ['--mode', 'fuzzingserver', '--spec', settings, '--webport', '0']
  const server = spawn(path.join(programs, 'wstest'), args, { cwd: scratch, stdio: ['ignore', 'ignore', 'inherit'] })
  try {
    const count = Number(await waitUntil(() => answerOf(`${url}/getCaseCount`).catch(() => null), 'the server of the suite answers'))
    const scenario = path.join(scratch, 'cases.toml')
    writeFileSync(scenario, scenarioOf(count))
    await runOrFail(binary('examples/echo_client'), [scenario, url], { ms: RUN_MS })
    await answerOf(`${url}/updateReports?agent=${LOAD}`)
    return { version: PACKAGE.split('==')[1], cases: casesOf(reports) }
  } finally {
    server.kill('SIGKILL')
  }
}

/** The message that the suite's server sends before it closes. */
async function answerOf(url) {
  const socket = new WebSocket(url)
  let answer = ''
  socket.on('message', (message) => (answer = message.toString()))
  await withTimeout(once(socket, 'close'), `${url} answers`)
  return answer
}

/** A scenario in which each user runs one case, until the server closes. */
function scenarioOf(cases) {
  return `
wind_down = "100s"

[[targets]]
url = "ws://localhost"

[[phases]]
name = "cases"
duration = "${Math.ceil(cases / CASES_PER_SECOND)}s"
rate = ${CASES_PER_SECOND}
users_max = ${cases}

[[sessions]]
name = "case"
steps = [{ connect = { path = "/runCase?case=\${id}&agent=${LOAD}" } }, { stay = { for = "100s" } }]
`
}

/** `INFORMATIONAL` cases have no right answer: the suite only notes how a server behaves. */
const GOOD = ['OK', 'INFORMATIONAL']

function casesOf(reports) {
  const { watchfire } = JSON.parse(readFileSync(path.join(reports, 'index.json'), 'utf8'))
  return Object.entries(watchfire).map(([name, { behavior, behaviorClose }]) => ({
    name,
    isPassed: GOOD.includes(behavior) && GOOD.includes(behaviorClose),
    found: `behaviour ${behavior}, close ${behaviorClose}`,
  }))
}
