// The vectors of project Wycheproof, which unit tests compare.

import { readFileSync } from 'node:fs'
import path from 'node:path'

import { REPOSITORY, runOrFail } from '../lib/tools.mjs'

const RUN_MS = 9 * 60_000

export const suite = {
  title: 'Wycheproof',
  about:
    'The vectors of project Wycheproof have broken other verifiers. Unit tests compare them with the verification of tokens and with ' +
    'the cipher and the key derivation of private pages. One vector that differs fails the tests.',
  parts: [
    { judged: 'signatures of tokens', run: () => vectorsOf('watchfire-auth') },
    { judged: 'private pages', run: () => vectorsOf('watchfire-content') },
  ],
}

async function vectorsOf(crate) {
  const cargo = process.env.CARGO ?? 'cargo'
  const output = await runOrFail(cargo, ['test', '--package', crate, '--lib', 'wycheproof', '--', '--nocapture'], {
    ms: RUN_MS,
    cwd: REPOSITORY,
  })
  const cases = [...output.matchAll(/^.*wycheproof (\S+): (\d+) cases$/gm)].flatMap(([, name, count]) =>
    Array.from({ length: Number(count) }, () => ({ name, isPassed: true })),
  )
  return { version, cases }
}

const lock = readFileSync(path.join(REPOSITORY, 'Cargo.lock'), 'utf8')
const version = /name = "wycheproof"\nversion = "([^"]+)"/.exec(lock)[1]
