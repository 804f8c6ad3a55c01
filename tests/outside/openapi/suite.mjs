// Schemathesis, which sends what our description of the HTTP API allows, and what it does not allow.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { API_KEY } from '../../interop/lib/http-api.mjs'
import { startWatchfire } from '../../interop/lib/server.mjs'
import { python, run } from '../lib/tools.mjs'

const PACKAGE = 'schemathesis==4.32.5'
const EXAMPLES = 40
const EXAMPLES_OF_SLICE = 3
const RUN_MS = 5 * 60_000

export const suite = {
  title: 'Schemathesis',
  about:
    'Schemathesis reads `/api/openapi.json` and sends calls that the description allows and calls that it does not allow, to a ' +
    'server in which some topics have a history. A case is a call. The calls are derived from a fixed seed.',
  parts: [{ judged: 'the HTTP API', run: judgeApi }],
}

async function judgeApi({ isSlice, scratch }) {
  const programs = await python([PACKAGE])
  const rules = '[{ pattern = "news:*", join = "anyone", history = { messages = 10 } }]'
  const server = await startWatchfire({ settings: { 'api.key': API_KEY, 'channels.rules': rules } })
  try {
    const description = path.join(scratch, 'openapi.json')
    writeFileSync(description, await (await fetch(server.http('/api/openapi.json'))).text())
    const report = path.join(scratch, 'report.ndjson')
    const args = [
      ...['run', description, '--url', server.http(''), '--header', `Authorization: Bearer ${API_KEY}`],
      ...['--seed', '1', '--max-examples', String(isSlice ? EXAMPLES_OF_SLICE : EXAMPLES), '--phases', 'examples,coverage,fuzzing'],
      ...['--continue-on-failure', '--suppress-health-check', 'all', '--report', 'ndjson', '--report-ndjson-path', report],
    ]
    // A folder without settings of its own and of other projects.
    const cwd = path.join(scratch, 'work')
    mkdirSync(cwd)
    const { stdout } = await run(path.join(programs, 'schemathesis'), args, { ms: RUN_MS, cwd })
    if (process.env.OUTSIDE_KEEP) writeFileSync(process.env.OUTSIDE_KEEP, stdout)
    return { version: PACKAGE.split('==')[1], cases: casesOf(readFileSync(report, 'utf8')) }
  } finally {
    await server.stop()
  }
}

/** A case is a call. Its name has the check that failed, and the code of the error that the server answered. */
function casesOf(report) {
  const events = report
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line))
  return events.flatMap(({ ScenarioFinished: scenario }) => {
    if (!scenario) return []
    const { label, checks, interactions } = scenario.recorder
    return Object.entries(checks ?? {}).map(([id, results]) => {
      const failed = results.find(({ status }) => status !== 'success')
      if (!failed) return { name: label, isPassed: true }
      const { request, response } = interactions[id]
      const found = [failed.failure_info?.failure.message, request?.uri, text(request?.body), text(response?.content)]
      return { name: `${label}: ${failed.name}: ${codeOf(response)}`, isPassed: false, found: found.join('\n') }
    })
  })
}

const text = (bytes) => (bytes ? Buffer.from(bytes.$base64, 'base64').toString() : '')

function codeOf(response) {
  try {
    return JSON.parse(text(response?.content)).error.code
  } catch {
    return String(response?.status_code)
  }
}
