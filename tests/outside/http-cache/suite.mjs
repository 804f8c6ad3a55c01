// http-cache-tests, which show how a cache follows RFC 9111.

import { readFileSync } from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

import handleConfig from 'http-cache-tests/server/handle-config.mjs'
import handleState from 'http-cache-tests/server/handle-state.mjs'
import handleTest from 'http-cache-tests/server/handle-test.mjs'
import { setStash, stash } from 'http-cache-tests/server/utils.mjs'

import { run } from '../../interop/lib/program.mjs'
import { startMirror } from '../../interop/lib/server.mjs'
import { startSplitter } from '../lib/splitter.mjs'
import { closeServer, listen, portOf } from '../../interop/lib/listen.mjs'

const RUN_MS = 6 * 60_000
const FOLDER = path.dirname(fileURLToPath(import.meta.resolve('http-cache-tests/package.json')))

export const suite = {
  title: 'http-cache-tests',
  about:
    'http-cache-tests show how a cache follows RFC 9111. Its server is behind the `/proxy` of a mirror. Counted are the cases of ' +
    'the kinds *required*, which the specification demands of every cache, and *optimal*, in which a cache could have saved a ' +
    'request. Cases that only observe are not counted, and neither are cases about a stored answer that the proxy does not store. ' +
    'The suite names for some cases others on which they depend: a case whose dependency did not pass is left out.',
  parts: [{ judged: 'the proxy of the mirror', run: judgeProxy }],
}

async function judgeProxy({ isSlice, scratch }) {
  const numbers = new Map()
  const origin = await startOrigin(numbers)
  const mirror = await startMirror(path.join(scratch, 'store'), ['--proxy-host', `cache.example=http://127.0.0.1:${portOf(origin)}`])
  // The suite writes its settings, and reads its records, beside the cache.
  const splitter = await startSplitter(({ url, headers }) => {
    if (!url.startsWith('/test/')) return { port: portOf(origin), path: url }
    numbers.set(testOf(url), headers['req-num'])
    return { port: mirror.port, path: `/proxy/cache.example${url}` }
  })
  try {
    const args = [
      fileURLToPath(new URL('client.mjs', import.meta.url)),
      `http://127.0.0.1:${splitter.port}`,
      ...(isSlice ? ['--slice'] : []),
    ]
    const { stdout } = await run(process.execPath, args, { timeout: RUN_MS, killSignal: 'SIGKILL', maxBuffer: 1 << 28 })
    return { version: JSON.parse(readFileSync(path.join(FOLDER, 'package.json'), 'utf8')).version, cases: JSON.parse(stdout) }
  } finally {
    await splitter.stop()
    await mirror.stop()
    await closeServer(origin)
  }
}

const HANDLERS = { config: handleConfig, state: handleState, test: handleTest }

/** The id of a test, in a path `/test/<id>`. */
const testOf = (url) => new URL(url, 'http://localhost').pathname.split('/')[2]

/**
 * The suite's server, on loopback only. `numbers` has the number of the client's last request of each test: the suite writes it
 * into a header, and the mirror forwards only headers that it knows.
 */
async function startOrigin(numbers) {
  const server = http.createServer((request, response) => {
    const [, name, ...segments] = new URL(request.url, 'http://localhost').pathname.split('/')
    const handle = HANDLERS[name]
    if (!handle) return response.writeHead(404).end()
    if (name === 'test') request.headers['req-num'] = numbers.get(segments[0])
    if (request.method !== 'HEAD') return handle(segments, request, response)
    uncounted(segments[0], () => handle(segments, request, withLength(response)))
  })
  // Longer than the pauses of the tests: no connection is closed while the mirror sends a request on it.
  server.keepAliveTimeout = RUN_MS
  await listen(server)
  return server
}

/** The suite counts the requests of each test. It takes a HEAD before a GET, which the mirror sends, for a retry. So HEAD is not counted. */
function uncounted(test, handle) {
  const before = stash.get(test)?.slice()
  handle()
  if (before) setStash(test, before)
  else stash.delete(test)
}

/** Node leaves the length out of an answer to HEAD, and the mirror stores only files whose length it knows. */
function withLength(response) {
  const end = response.end
  response.end = (content = '') => {
    response.setHeader('Content-Length', Buffer.byteLength(content))
    return end.call(response)
  }
  return response
}
