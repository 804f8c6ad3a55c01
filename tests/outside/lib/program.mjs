// The cases of a client's program, which runs beside the suite.

import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'

import { withTimeout } from '../../interop/lib/deadlines.mjs'

/**
 * Runs a program, at most `ms` milliseconds. It prints one JSON object per line: a case, or `{ "ask": … }` with what it cannot do
 * itself. `answer` does it, and may return a text. A line on the program's input has this text, and says that it is done.
 */
export async function casesOf(program, args, answer, { ms, env = process.env }) {
  const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'], env })
  try {
    return await withTimeout(readCases(child, answer), `${program} ends`, ms)
  } finally {
    child.kill('SIGKILL')
  }
}

async function readCases(child, answer) {
  const cases = []
  for await (const line of createInterface({ input: child.stdout })) {
    const { ask, ...rest } = JSON.parse(line)
    if (ask) child.stdin.write(`${(await answer(ask, rest)) ?? ''}\n`)
    else cases.push(rest)
  }
  if (cases.length === 0) throw new Error('cannot judge the server: the client ended without a case; its error is above')
  return cases
}
