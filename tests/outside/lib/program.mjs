// The cases of a client's program, which runs beside the suite.

import { createInterface } from 'node:readline'

/**
 * A program prints one JSON object per line: a case, or `{ "ask": … }` with what it cannot do itself. `answer` does it, and may
 * return a text. A line on the program's input has this text, and says that it is done.
 */
export async function casesOf(child, answer) {
  const cases = []
  for await (const line of createInterface({ input: child.stdout })) {
    const { ask, ...rest } = JSON.parse(line)
    if (ask) child.stdin.write(`${(await answer(ask, rest)) ?? ''}\n`)
    else cases.push(rest)
  }
  if (cases.length === 0) throw new Error('cannot judge the server: the client ended without a case; its error is above')
  return cases
}
