// Stacks of WebRTC by other authors, as peers of a page that a browser shares.

import { randomBytes } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

import { sha256 } from '../../interop/lib/hashes.mjs'
import { startWatchfire } from '../../interop/lib/server.mjs'
import { casesOf } from '../lib/program.mjs'
import { cargoProgram, INTEROP_MODULES, needs, python, PYTHON_LIBRARY, Skip } from '../lib/tools.mjs'

const AIORTC = 'aiortc==1.16.0'
const WEBSOCKETS = 'websockets==17.4'
const STR0M_FOLDER = fileURLToPath(new URL('str0m', import.meta.url))
const STR0M = /^str0m = \{ version = "=(.*?)"/m.exec(readFileSync(path.join(STR0M_FOLDER, 'Cargo.toml'), 'utf8'))[1]
const FILE_BYTES = (5 << 20) + 3
const RUN_MS = 5 * 60_000

export const suite = {
  title: 'WebRTC',
  about:
    'aiortc (Python) and str0m (Rust) implement ICE, DTLS and SCTP. A program with one of them joins a page that a tab of Chromium ' +
    'shares. It exchanges signals with the tab, and loads the file over the data channel. The tab calls once, and the program calls ' +
    'twice. aiortc cannot restart ICE, and str0m has no client of STUN: each lacks one case of the other.',
  // A browser, packages of 40 MB, and a hundred crates to compile once.
  parts: [
    {
      judged: 'a tab of Chromium, with aiortc',
      run: judgedBy([AIORTC, 'aioice==0.13.0'], async () => 'aiortc', AIORTC.split('==')[1]),
      isInSlice: false,
    },
    {
      judged: 'a tab of Chromium, with str0m',
      run: judgedBy([], () => cargoProgram(STR0M_FOLDER, 'watchfire-outside-str0m'), STR0M),
      isInSlice: false,
    },
  ],
}

/** The cases of peer.py, with these Python packages and the stack that it gets as its last argument. */
function judgedBy(packages, stack, version) {
  return async ({ scratch }) => {
    if (!process.env.CHROMIUM) needs('chromium')
    if (!existsSync(INTEROP_MODULES))
      throw new Skip('the packages of `tests/interop` are not installed; `npm ci` in this folder installs them')
    const { DIRECT_ON_LOOPBACK, launch } = await import('../../interop/lib/chromium.mjs')
    const interpreter = path.join(await python([...packages, WEBSOCKETS]), 'python')
    const last = await stack()
    const server = await startWatchfire()
    const browser = await launch(DIRECT_ON_LOOPBACK)
    try {
      const content = randomBytes(FILE_BYTES)
      const { tab, cid } = await share(browser, server, path.join(scratch, 'film.bin'), content)
      const args = [fileURLToPath(new URL('peer.py', import.meta.url)), String(server.port), cid, sha256(content), last]
      const env = { ...process.env, PYTHONPATH: PYTHON_LIBRARY }
      const asked = { leave: () => tab.goto('about:blank').then(() => '') }
      return { version, cases: await casesOf(interpreter, args, (ask) => asked[ask](), { ms: RUN_MS, env }) }
    } finally {
      await browser.close()
      await server.stop()
    }
  }
}

/** Shares a file as a person does; returns the tab and the CID of the page. */
async function share(browser, server, file, content) {
  writeFileSync(file, content)
  const tab = await browser.newPage()
  await tab.goto(`http://localhost:${server.port}/`)
  await tab.locator('input[type=file]').setInputFiles([file])
  await tab.getByRole('button', { name: 'Light this page' }).click()
  const link = await tab.getByRole('textbox', { name: 'Link to this page' }).inputValue()
  return { tab, cid: new URL(link).pathname.replace('/p/', '') }
}
