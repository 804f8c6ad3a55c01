// A call of the Container Runtime Interface, which Kubernetes pulls images with: gRPC over a Unix socket.

import http2 from 'node:http2'
import net from 'node:net'

const TIMEOUT_MS = 60_000

/** A Protocol Buffers field with a length. The messages here are shorter than 128 bytes. */
function field(number, bytes) {
  if (bytes.length > 127) throw new Error(`cannot encode a field of ${bytes.length} bytes; use a shorter name`)
  return Buffer.concat([Buffer.from([(number << 3) | 2, bytes.length]), bytes])
}

/** `PullImage` of the runtime that listens on a socket. Resolves to the id of the image. */
export async function pullImage(socket, image) {
  const client = http2.connect('http://localhost', { createConnection: () => net.connect(socket) })
  try {
    return await new Promise((resolve, reject) => {
      client.once('error', reject)
      const call = client.request({
        ':method': 'POST',
        ':path': '/runtime.v1.ImageService/PullImage',
        'content-type': 'application/grpc',
        te: 'trailers',
      })
      let status = {}
      const chunks = []
      const note = (headers) => (status = { ...status, ...headers })
      call.setTimeout(TIMEOUT_MS, () => reject(new Error(`cannot pull ${image}: no answer within ${TIMEOUT_MS} ms`)))
      call
        .on('response', note)
        .on('trailers', note)
        .on('data', (chunk) => chunks.push(chunk))
        .once('error', reject)
      call.once('end', () => {
        if (status['grpc-status'] !== '0')
          reject(new Error(`cannot pull ${image}: ${decodeURIComponent(status['grpc-message'] ?? 'no status')}`))
        // After the length of the message and the header of its only field.
        else resolve(Buffer.concat(chunks).subarray(7).toString())
      })
      const message = field(1, field(1, Buffer.from(image)))
      const length = Buffer.alloc(5)
      length.writeUInt32BE(message.length, 1)
      call.end(Buffer.concat([length, message]))
    })
  } finally {
    client.destroy()
  }
}
