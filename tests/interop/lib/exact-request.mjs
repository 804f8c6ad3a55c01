// HTTP requests as they are written: `fetch` changes some paths and headers.

import http from 'node:http'

/**
 * Requests a path of a server on loopback, on a connection of its own. Returns the status, the headers, the bytes, and
 * whether the answer was cut.
 */
export function requestExactly({ port }, target, { method = 'GET', headers = {} } = {}) {
  return new Promise((resolve, reject) => {
    const request = http.request({ host: '127.0.0.1', port, path: target, method, headers, agent: false })
    request.once('error', reject)
    request.once('response', (response) => {
      const chunks = []
      const end = (isCut) => {
        const { statusCode: status, headers } = response
        resolve({ status, headers, bytes: Buffer.concat(chunks), isCut })
      }
      response.on('data', (chunk) => chunks.push(chunk))
      response.once('end', () => end(false))
      response.once('error', () => end(true))
    })
    request.end()
  })
}
