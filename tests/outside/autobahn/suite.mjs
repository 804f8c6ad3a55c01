// Autobahn, which tests implementations of RFC 6455 with some hundred cases.

import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { binary, start } from '../../interop/lib/server.mjs'
import { python, runOrFail } from '../lib/tools.mjs'

const PACKAGE = 'autobahntestsuite==25.10.1'
/** Compression: Watchfire has none, and refuses to negotiate it. */
const EXCLUDED = ['12.*', '13.*']
const SLICE = ['1.*', '2.*', '3.*', '4.*', '5.*', '7.*', '10.*']
const RUN_MS = 8 * 60_000

export const suite = {
  title: 'Autobahn',
  about:
    'Autobahn tests implementations of RFC 6455: framing, pings, reserved bits, opcodes, fragments, UTF-8, closing and sizes. ' +
    'The cases 12 and 13, which test compression, are not run: the event loops have no compression, and do not negotiate it.',
  parts: [{ judged: 'the server', run: judgeServer }],
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
