// SHA-256 as hexadecimal text.

import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { pipeline } from 'node:stream/promises'

export const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex')

export async function sha256OfFile(name) {
  const hash = createHash('sha256')
  await pipeline(createReadStream(name), hash)
  return hash.digest('hex')
}
