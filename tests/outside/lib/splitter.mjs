// A server in front of two others, for suites that write to one server what they read from another.

import http from 'node:http'

import { closeServer, listen } from '../../interop/lib/listen.mjs'

/** Starts a server that sends each request to the port and path that `target` returns for it. */
export async function startSplitter(target) {
  const server = http.createServer((request, response) => {
    const { port, path } = target(request)
    const forwarded = http.request({ host: '127.0.0.1', port, method: request.method, path, headers: request.headers, agent: false })
    forwarded.once('response', (answer) => {
      response.writeHead(answer.statusCode, answer.statusMessage, answer.rawHeaders)
      answer.once('error', () => response.destroy())
      answer.pipe(response)
    })
    forwarded.once('error', () => response.destroy())
    response.once('close', () => forwarded.destroy())
    request.pipe(forwarded)
  })
  return { port: await listen(server), stop: () => closeServer(server) }
}
